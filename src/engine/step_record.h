// What an engine did, to be done again: every call of its scheduler, and every plan that came out.
// Engine thread; owned by EngineCore. A recording holds the token ids of prompts and answers.
//
// JSON lines, in the order of the calls. Times are nanoseconds of a steady clock, "bits" 32 digits.
//
//   {"millrace_steps":2,"policy":"fcfs","max_num_batched_tokens":512,...}
//       The first line: the version of the format and each field of SchedulerConfig but the key of
//       the hashes, which is secret. Plans do not depend on it: a hash only says where to look.
//       "speculation" is null or its num_speculative_tokens, prompt_lookup_max and
//       prompt_lookup_min.
//   {"call":"add","id":0,"prompt":[1,2],"max_tokens":16,"min_tokens":0,"n":1,"ignore_eos":false,
//    "stop_token_ids":[],"prompt_logprobs":null,"priority":0,"arrival":5,"deadline":null,
//    "prefix_root":"bits","tenant":0}
//       What of a request the scheduler reads; only of requests that it accepted.
//   {"call":"cancel","id":0,"choice":1}
//       One choice; all choices without "choice", all requests without "id" too.
//   {"call":"plan","now":6,"scheduled":[[0,0,0,2,1,null,3]],"copies":[[7,8]],
//    "dropped":[[4,0,"deadline"]]}
//       A stretch: request, choice, first_token, num_tokens, num_logit_rows, resumed_from,
//       saved_to, and the list of its drafts if it has any. A copy: from, to. Who was dropped:
//       request, choice, why. Plans of nothing at all are left out: they change nothing.
//   {"call":"commit","now":7,"outcomes":[17]}
//       For each stretch the token that was chosen, the list of them if there are several, null, or
//       "error".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/id.h"
#include "sched/request.h"
#include "sched/scheduler_config.h"
#include "sched/step_plan.h"

namespace millrace {

constexpr int64_t kStepRecordVersion = 2;

// The line of a plan, with its end.
void append_plan_line(const StepPlan& plan, TimePoint now, std::string& lines);

class StepRecorder {
 public:
  // Takes whole lines, on the engine thread, which waits for it; the first one at once. False: no
  // more of them are wanted, because the disk is full, say; the rest of the run is not recorded
  // then.
  using Write = std::function<bool(std::string_view lines)>;

  // REQUIRES: `write` is not empty.
  StepRecorder(Write write, const SchedulerConfig& config);

  void add(const Request& request);
  void cancel(std::optional<RequestId> id, std::optional<int32_t> choice);
  void plan(const StepPlan& plan, TimePoint now);
  void commit(std::span<const StepOutcome> outcomes, TimePoint now);

  // Hands over what has come since the last time: once a step and before the scheduler works with
  // it, so that a recording leads up to the call that did not return.
  void flush();

 private:
  Write write_;  // empty: over
  std::string lines_;
};

}  // namespace millrace
