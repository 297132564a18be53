// The step: plan, forward, sample, commit. With a runner that draws tokens itself, the next step is
// planned and launched while this one runs, and in flight when this one's events are given out
// (docs/decisions/0019): what each sequence says is the same. No threads and no inbox, so that a
// test can drive it with its own model and clock; Engine runs it on the engine thread. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/engine_event.h"
#include "engine/step_record.h"
#include "engine/step_sampler.h"
#include "engine/step_sizes.h"
#include "model/model_runner.h"
#include "sched/scheduler.h"

namespace millrace {

class EngineCore {
 public:
  // `now` is read twice a step. `record` takes a recording of all calls (step_record.h), if it is
  // not empty. REQUIRES: validate(config) is ok; the runner has config's blocks.
  EngineCore(
      SchedulerConfig config,
      std::unique_ptr<ModelRunner> runner,
      std::function<TimePoint()> now = Clock::now,
      StepRecorder::Write record = {}
  );
  ~EngineCore();  // waits for the step in flight
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  // As the scheduler's functions of these names.
  Result<void> add(Request request);
  void cancel(RequestId id);
  void cancel(RequestId id, int32_t choice);
  void cancel_all();
  bool is_idle() const { return scheduler_.is_idle(); }

  // Computes the next step and returns what happened in it, in order. Nothing happens when idle.
  // Who ended without running, as the next step was planned meanwhile, comes first.
  std::vector<EngineEvent> step();

  SchedulerStats scheduler_stats() const { return scheduler_.stats(); }
  int64_t num_steps() const { return num_steps_; }
  const StepSizes& step_sizes() const { return step_sizes_; }
  Duration last_step_time() const { return last_step_time_; }

  void check_invariants() const { scheduler_.check_invariants(); }

 private:
  struct LaunchedStep {
    StepPlan plan;
    StepSampler::Draws draws;
    TimePoint begin;
  };

  StepPlan plan(TimePoint now);
  std::vector<FinishedEvent> commit(
      const StepPlan& plan, std::span<const StepOutcome> outcomes, TimePoint now
  );
  std::optional<LaunchedStep> launch(std::vector<EngineEvent>& events);
  bool may_plan_behind(const LaunchedStep& step) const;
  void settle(const LaunchedStep& step, std::vector<EngineEvent>& events);

  Scheduler scheduler_;
  std::unique_ptr<ModelRunner> runner_;
  StepSampler sampler_;
  std::function<TimePoint()> now_;
  std::optional<StepRecorder> recorder_;
  std::optional<LaunchedStep> launched_;  // between two calls of step(): the one in flight
  int64_t num_steps_ = 0;
  StepSizes step_sizes_;
  TimePoint last_end_;          // of a step
  Duration last_step_time_{0};  // without what the step before it took of the runner's time
};

}  // namespace millrace
