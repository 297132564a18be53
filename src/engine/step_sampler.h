// What the engine makes of a step besides running it: which rows of logits the model's runner may
// draw a token from itself, and from what the runner returned, what became of each sequence. Engine
// thread, which has the runner's look at the rows with it; owned by EngineCore.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/id.h"
#include "base/thread_pool.h"
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

  // `threads` look at the rows, borrowed and otherwise idle during sample(); nullptr: the caller's
  // alone.
  StepSampler(int64_t vocab_size, std::vector<TokenId> eos_token_ids, ThreadPool* threads);

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
  // One of a stretch's, and what was made of it: nothing, if its logits are not all finite.
  struct Row {
    const ScheduledSequence* scheduled = nullptr;
    int32_t index = 0;              // of the stretch's rows
    std::span<const float> logits;  // [vocab_size], or nothing if a token was drawn

    bool is_usable = false;
    std::optional<SampledToken> token;          // none: the constraints leave none
    std::vector<TokenLogprob> prompt_logprobs;  // of the row of a prompt's position
  };

  void take_rows(const StepPlan& plan, const Draws& draws, const StepResult& result);
  void read_rows();
  void read_row(Row& row, Sampler& sampler) const;
  StepOutcome outcome_of(
      const ScheduledSequence& scheduled, std::span<Row> rows, std::vector<EngineEvent>& events
  );
  static void append_prompt_logprobs(
      const ScheduledSequence& scheduled, std::span<Row> rows, std::vector<EngineEvent>& events
  );
  static StepOutcome tokens_of(const ScheduledSequence& scheduled, std::span<Row> rows);
  SamplingInput input_of(const ScheduledSequence& scheduled, int32_t num_drafts) const;

  size_t vocab_size_;
  std::vector<TokenId> eos_token_ids_;
  ThreadPool* threads_;
  std::vector<Sampler> samplers_;  // one for each thread
  std::vector<Row> rows_;          // [num_logit_rows] of the step
};

}  // namespace millrace
