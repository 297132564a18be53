// Does what a recording says (step_record.h) with a scheduler alone, and compares the plans: the
// same calls must give the same plans, on every machine. A recording is input from outside: nothing
// in it crashes or takes memory without bound. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "sched/scheduler.h"

namespace millrace {

// What of a recording is believed; far above what an engine records.
struct ReplayLimits {
  int32_t num_blocks_max = 1 << 22;          // 120 bytes each
  int64_t num_slots_max = int64_t{1} << 27;  // tokens of all blocks, 4 bytes each
  int32_t n_max = 1024;
  int32_t num_live_seqs_max = 1 << 20;
};

struct ReplaySummary {
  int64_t num_requests = 0;
  int64_t num_steps = 0;
  SchedulerStats scheduler;
  std::vector<Duration> step_times;  // [num_steps]: plan and commit of each, without checks
};

class StepReplay {
 public:
  struct Options {
    bool checks_invariants = true;  // after each step; takes far more time than the step
    ReplayLimits limits = {};
    std::function<TimePoint()> now = Clock::now;  // what step_times are measured with
  };
  explicit StepReplay(Options options) : options_(std::move(options)) {}

  // The next line, without its end. After an error there is no going on.
  Result<void> take(std::string_view line);

  // What take() refused because another plan came out: both lines.
  struct Difference {
    std::string recorded;
    std::string computed;
  };
  const std::optional<Difference>& difference() const { return difference_; }

  bool has_begun() const { return scheduler_ != nullptr; }  // there was a first line
  ReplaySummary summary() const;

 private:
  Result<void> begin(const json::object& line);
  Result<void> add(const json::object& line);
  Result<void> cancel(const json::object& line);
  Result<void> plan(const json::object& line, std::string_view text);
  Result<void> commit(const json::object& line);
  Result<std::vector<StepOutcome>> outcomes_of(const json::array& list) const;
  void forget(const std::vector<FinishedEvent>& finished);

  const Options options_;
  std::unique_ptr<Scheduler> scheduler_;
  std::optional<StepPlan> plan_;                 // that waits for its commit
  std::unordered_map<RequestId, int32_t> live_;  // requests and their n
  std::optional<Difference> difference_;
  Duration plan_time_{0};
  int64_t num_requests_ = 0;
  std::vector<Duration> step_times_;
};

}  // namespace millrace
