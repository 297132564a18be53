// What one step computes: a value that the scheduler gives out and takes back with what was chosen.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "sampling/sampler.h"
#include "sched/finished_event.h"
#include "sched/sequence.h"

namespace millrace {

// The K and V of a whole block, copied: a sequence goes on writing where it shares what was
// written.
struct BlockCopy {
  BlockId from;
  BlockId to;
  friend bool operator==(const BlockCopy&, const BlockCopy&) = default;
};

// A stretch of one sequence: tokens [first_token, first_token + num_tokens), whose blocks exist.
// The last of them may be drafts (Sequence::drafts): guesses, whose logits are read in case they
// are right.
struct ScheduledSequence {
  const Sequence* sequence = nullptr;  // the scheduler's; valid until the plan is committed
  int32_t first_token = 0;             // position in the sequence = its computed tokens
  int32_t num_tokens = 0;              // at least 1, but for a stretch that resumes
  int32_t num_logit_rows = 0;          // the last so many tokens of the stretch have logits read
  int32_t num_drafts = 0;              // the last so many tokens of the stretch, and of these rows
  // Whether the next token is chosen: the stretch reaches the sequence's end, and may go beyond.
  bool samples = false;

  // Nothing is left to compute (num_tokens is 0, num_logit_rows 1): the logits of the last token
  // come from the hidden state that was saved when the same tokens were computed before.
  std::optional<HiddenSlotId> resumed_from = {};
  // Keep the hidden state of the stretch's last token here.
  std::optional<HiddenSlotId> saved_to = {};

  int32_t end_token() const { return first_token + num_tokens; }
  int32_t first_logit_row() const { return end_token() - num_logit_rows; }  // a position
  // The sequence ended while the step was in flight: what the step does to it is nobody's.
  bool is_void() const { return sequence->state() == SequenceState::kFinished; }
};

struct StepPlan {
  std::vector<ScheduledSequence> scheduled;  // each sequence at most once
  std::vector<FinishedEvent> dropped;        // ended by cancellation or deadline, without running
  std::vector<BlockCopy> copies;             // in this order, before anything is computed
  int32_t num_tokens = 0;                    // sum over `scheduled`
  int32_t num_logit_rows = 0;                // sum over `scheduled`

  bool is_empty() const { return scheduled.empty(); }
};

// What a step did to one scheduled sequence besides computing its tokens. An Error ends it.
struct NothingSampled {};
// The next token; and after each one that a draft had guessed, the one that follows it. Never
// empty.
using SampledTokens = std::vector<SampledToken>;
using StepOutcome = std::variant<NothingSampled, SampledTokens, Error>;

}  // namespace millrace
