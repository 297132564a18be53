// A session under way: which turn, and the bytes of its request. Plain values; handed from the
// thread that builds to the thread that sends, and owned by one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "loadgen/request_body.h"
#include "results/request_record.h"
#include "workload/planned_request.h"

namespace millrace::bench {

struct SessionRun {
  int64_t session = 0;      // its number in the dataset
  int64_t first_index = 0;  // of its first turn's request
  int32_t turn = 0;
  Phase phase = Phase::kMeasured;
  std::optional<int32_t> slot;  // closed loop
  Nanos due{0};                 // open loop: when the first turn is to be sent
  PlannedSession plan;          // the prompts of turns that are worded already are empty
  Conversation conversation;    // of several turns: up to the current one
  std::string bytes;            // the current turn's request
  Nanos scheduled{0};
  Nanos admitted{0};

  const PlannedRequest& request() const { return plan.turns[static_cast<size_t>(turn)]; }
  bool has_later_turn() const { return static_cast<size_t>(turn) + 1 < plan.turns.size(); }
};

}  // namespace millrace::bench
