// What is guessed for a step, and what becomes of it: the part of the scheduler for speculation.
#include <algorithm>
#include <memory>

#include "base/check.h"
#include "sched/scheduler.h"

namespace millrace {
namespace {

// An end is not guessed: it would be chosen from the logits before it, and nothing follows it.
bool is_end(TokenId token, const SamplingParams& sampling, std::span<const TokenId> eos_token_ids) {
  const auto contains = [token](std::span<const TokenId> ids) {
    return std::ranges::find(ids, token) != ids.end();
  };
  return (!sampling.ignore_eos && contains(eos_token_ids)) || contains(sampling.stop_token_ids);
}

}  // namespace

std::vector<Scheduler::Drafting> Scheduler::make_drafting(const Request& request) const {
  const NgramDrafter::Options options{
      .speculation = *config_.speculation,
      .hash_key = config_.prefix_hash_key.low ^ config_.prefix_hash_key.high,
      .num_prompt_tokens = static_cast<int32_t>(request.prompt.size()),
  };
  const std::shared_ptr<NgramIndex> prompt = NgramDrafter::make_prompt_index(options);
  std::vector<Drafting> drafting;
  for (int32_t choice = 0; choice < request.sampling.n; ++choice) {
    drafting.push_back({.drafter = NgramDrafter(options, prompt), .pace = {}});
  }
  return drafting;
}

// In the plan's order, as far as the step's limits go. Not where a prompt ends: its hidden state is
// that of the stretch's last token, and one token in a whole answer is not worth an exception.
void Scheduler::add_drafts(Step& step) {
  CHECK(assumed_.is_over(), "guesses follow what is known");
  for (size_t i = 0; i < last_.scheduled.size(); ++i) {
    if (step.left.num_tokens == 0 || step.left.num_logit_rows == 0) return;
    ScheduledSequence& stretch = step.plan.scheduled[i];
    const bool is_due = stretch.samples && !stretch.resumed_from;
    Sequence& sequence = *last_.scheduled[i];
    if (is_due && sequence.num_output_tokens() > 0) add_drafts(sequence, stretch, step);
  }
}

void Scheduler::add_drafts(Sequence& sequence, ScheduledSequence& stretch, Step& step) {
  const int32_t num_tokens_max = std::min(
      {config_.speculation->num_speculative_tokens,
       step.left.num_tokens,
       step.left.num_logit_rows,
       config_.long_prefill_token_threshold - stretch.num_tokens,
       // One token comes of the last logits, and it is never computed.
       sequence.num_tokens_max() - sequence.num_tokens() - 1}
  );
  if (num_tokens_max <= 0) return;
  guess(sequence, static_cast<int32_t>(step.plan.scheduled.size()), num_tokens_max);
  if (drafts_.empty()) return;
  if (!try_extend(sequence, stretch.num_tokens + static_cast<int32_t>(drafts_.size()))) {
    // What fits behind the last token in the block that it has.
    const int32_t num_slots = sequence.blocks().num_token_slots() - stretch.end_token();
    drafts_.resize(std::min(drafts_.size(), static_cast<size_t>(num_slots)));
    if (drafts_.empty()) return;
  }
  sequence.set_drafts(drafts_);
  const int32_t num_drafts = sequence.num_drafts();
  stretch.num_drafts = num_drafts;
  stretch.num_tokens += num_drafts;
  stretch.num_logit_rows += num_drafts;
  step.plan.num_tokens += num_drafts;
  step.plan.num_logit_rows += num_drafts;
  step.left.num_tokens -= num_drafts;
  step.left.num_logit_rows -= num_drafts;
}

// Sets drafts_ to what is worth computing of what may follow.
void Scheduler::guess(Sequence& sequence, int32_t num_sequences, int32_t num_tokens_max) {
  const Request& request = sequence.request();
  Drafting& drafting = requests_.at(request.id).drafting[static_cast<size_t>(sequence.choice())];
  drafting.drafter.draft(sequence.tokens(), num_tokens_max, drafts_);
  const auto end = std::ranges::find_if(drafts_, [this, &request](TokenId token) {
    return is_end(token, request.sampling, config_.eos_token_ids);
  });
  drafts_.erase(end, drafts_.end());
  if (drafts_.empty()) return;
  const auto num_guesses = static_cast<int32_t>(drafts_.size());
  drafts_.resize(static_cast<size_t>(drafting.pace.num_worthwhile(num_sequences, num_guesses)));
}

// The drafts of the last plan have been looked at: after each that was right there is a token more.
void Scheduler::settle_drafts(Sequence& sequence, const StepOutcome& outcome) {
  const auto* tokens = std::get_if<SampledTokens>(&outcome);
  const auto num_accepted = tokens ? static_cast<int32_t>(tokens->size()) - 1 : 0;
  const int32_t num_drafts = sequence.num_drafts();
  totals_.speculation.add(num_drafts, num_accepted);
  Entry& entry = requests_.at(sequence.request().id);
  entry.drafting[static_cast<size_t>(sequence.choice())].pace.note(num_drafts, num_accepted);
  sequence.drop_drafts();
}

}  // namespace millrace
