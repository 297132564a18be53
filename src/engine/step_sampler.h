// What the engine makes of a step besides running it: which rows of logits the model's runner may
// draw a token from itself, and from what the runner returned, what became of each sequence. Engine
// thread; owned by EngineCore.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/id.h"
#include "engine/engine_event.h"
#include "model/model_runner.h"
#include "sampling/draw.h"
#include "sampling/sampler.h"
#include "sched/step_plan.h"

namespace millrace {

class StepSampler {
 public:
  using Draws =
      std::vector<std::optional<DrawParams>>;  // of a plan's rows of logits, or none at all

  StepSampler(int64_t vocab_size, std::vector<TokenId> eos_token_ids)
      : vocab_size_(static_cast<size_t>(vocab_size)), eos_token_ids_(std::move(eos_token_ids)) {}

  // [plan.num_logit_rows]: how a token is drawn from each row; nullopt where the host has to see
  // the logits, for the logprobs of a prompt or because something changes them first.
  Draws draws(const StepPlan& plan) const;

  // The outcome of each stretch of the plan. Events of prompt logprobs are appended on the way.
  // `draws`: as the step was launched with. REQUIRES: the plans before this one are committed.
  std::vector<StepOutcome> sample(
      const StepPlan& plan,
      const Draws& draws,
      const StepResult& result,
      std::vector<EngineEvent>& events
  );

 private:
  // What there is of a row.
  struct Row {
    std::span<const float> logits;  // [vocab_size], or nothing if a token was drawn
    const std::optional<SampledToken>* drawn = nullptr;
  };

  void read_rows(const StepPlan& plan, const Draws& draws, const StepResult& result);
  StepOutcome sample_sequence(
      const ScheduledSequence& scheduled,
      std::span<const Row> rows,
      std::vector<EngineEvent>& events
  );
  void append_prompt_logprobs(
      const ScheduledSequence& scheduled,
      std::span<const Row> rows,
      std::vector<EngineEvent>& events
  );
  StepOutcome sample_tokens(const ScheduledSequence& scheduled, std::span<const Row> rows);
  SamplingInput input_of(const ScheduledSequence& scheduled, int32_t num_drafts) const;
  static bool is_usable(const Row& row);

  size_t vocab_size_;
  std::vector<TokenId> eos_token_ids_;
  Sampler sampler_;
  std::vector<Row> rows_;  // [num_logit_rows] of the step
};

}  // namespace millrace
