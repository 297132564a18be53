// The step: plan, forward, sample, commit. No threads and no inbox, so that a test can drive it
// with its own model and clock; Engine runs it on the engine thread. Not thread-safe.
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
#include "engine/step_sizes.h"
#include "model/model_runner.h"
#include "sampling/sampler.h"
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

  // As the scheduler's functions of these names.
  Result<void> add(Request request);
  void cancel(RequestId id);
  void cancel(RequestId id, int32_t choice);
  void cancel_all();
  bool is_idle() const { return scheduler_.is_idle(); }

  // Computes the next step and returns what happened in it, in order. Nothing happens when idle.
  std::vector<EngineEvent> step();

  SchedulerStats scheduler_stats() const { return scheduler_.stats(); }
  int64_t num_steps() const { return num_steps_; }
  const StepSizes& step_sizes() const { return step_sizes_; }
  Duration last_step_time() const { return last_step_time_; }

  void check_invariants() const { scheduler_.check_invariants(); }

 private:
  StepPlan plan(TimePoint now);
  std::vector<FinishedEvent> commit(
      const StepPlan& plan, std::span<const StepOutcome> outcomes, TimePoint now
  );
  std::vector<StepOutcome> sample(
      const StepPlan& plan, std::span<const float> logits, std::vector<EngineEvent>& events
  );
  StepOutcome sample_sequence(
      const ScheduledSequence& scheduled,
      std::span<const float> logits,
      std::vector<EngineEvent>& events
  );
  void append_prompt_logprobs(
      const ScheduledSequence& scheduled,
      std::span<const float> logits,
      std::vector<EngineEvent>& events
  );
  StepOutcome sample_tokens(const ScheduledSequence& scheduled, std::span<const float> logits);

  Scheduler scheduler_;
  std::unique_ptr<ModelRunner> runner_;
  Sampler sampler_;
  std::function<TimePoint()> now_;
  std::optional<StepRecorder> recorder_;
  int64_t num_steps_ = 0;
  StepSizes step_sizes_;
  Duration last_step_time_{0};
};

}  // namespace millrace
