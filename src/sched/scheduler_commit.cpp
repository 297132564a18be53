// What a step changes: the half of the scheduler that takes results.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sched/scheduler.h"

namespace millrace {

void Scheduler::assume(const StepPlan& plan) {
  CHECK(assumed_.is_over(), "one step is in flight while the next one is planned");
  CHECK(!plan.is_empty() && plan.scheduled.size() == last_.scheduled.size(), "not the last plan");
  std::swap(last_, assumed_);
  int32_t num_rows = 0;
  for (size_t i = 0; i < plan.scheduled.size(); ++i) {
    const ScheduledSequence& stretch = plan.scheduled[i];
    CHECK(stretch.num_drafts == 0, "what comes of guesses is not certain");
    num_rows += stretch.num_logit_rows;
    if (stretch.is_void()) continue;
    advance(*assumed_.scheduled[i], stretch);
    if (stretch.samples) assumed_.scheduled[i]->await_output(num_rows - 1);
  }
}

std::vector<FinishedEvent> Scheduler::commit(
    const StepPlan& plan, std::span<const StepOutcome> outcomes, TimePoint now
) {
  const bool is_assumed = !assumed_.is_over();
  InFlight& step = is_assumed ? assumed_ : last_;
  CHECK(outcomes.size() == plan.scheduled.size(), "one outcome for each scheduled sequence");
  CHECK(step.scheduled.size() == plan.scheduled.size(), "the plan is not the oldest one");
  std::vector<FinishedEvent> finished;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const ScheduledSequence& stretch = plan.scheduled[i];
    Sequence& sequence = *step.scheduled[i];
    CHECK(stretch.sequence == &sequence, "the plan is not the oldest one");
    if (stretch.saved_to) --num_hidden_reserved_;
    if (stretch.is_void()) {
      if (stretch.saved_to) cache_.give_back(*stretch.saved_to);
      continue;
    }
    if (stretch.num_drafts > 0) settle_drafts(sequence, outcomes[i]);
    if (!is_assumed) advance(sequence, stretch);
    settle(sequence, stretch, outcomes[i], now, finished);
  }
  step.scheduled.clear();
  step.outlived.clear();
  return finished;
}

// The step computes the stretch. Which drafts were right is another matter.
void Scheduler::advance(Sequence& sequence, const ScheduledSequence& stretch) {
  CHECK(sequence.num_computed_tokens() == stretch.first_token, "the plan is not the last one");
  count_computed(sequence, stretch.num_tokens - stretch.num_drafts);
}

// What was awaited of a stretch has come. A sequence that was preempted since has no blocks, but
// keeps its token.
void Scheduler::settle(
    Sequence& sequence,
    const ScheduledSequence& stretch,
    const StepOutcome& outcome,
    TimePoint now,
    std::vector<FinishedEvent>& finished
) {
  const auto* tokens = std::get_if<SampledTokens>(&outcome);
  const auto* error = std::get_if<Error>(&outcome);
  CHECK(error || (tokens != nullptr) == stretch.samples, "tokens exactly where they are due");
  CHECK(!tokens || std::ssize(*tokens) <= 1 + stretch.num_drafts, "more than were guessed");

  const bool has_blocks = sequence.state() == SequenceState::kRunning;
  sequence.settle();
  if (!error && has_blocks && is_shared(sequence)) {
    keep_computed(sequence, stretch.saved_to);
  } else if (stretch.saved_to) {
    cache_.give_back(*stretch.saved_to);  // after an error its K and V are not to be trusted
  }
  std::optional<FinishReason> reason;
  if (error) reason = FinishReason::kError;
  if (tokens) reason = append_outputs(sequence, *tokens, now);
  if (stretch.num_drafts > 0) cache_.release(sequence.take_blocks_unused());
  if (!reason) return;
  Entry& entry = requests_.at(sequence.request().id);
  finished.push_back(finish(entry, sequence, *reason, now));
  if (error) finished.back().error = *error;
  forget_if_over(entry);
}

void Scheduler::count_computed(Sequence& sequence, int32_t num_tokens) {
  const int32_t num_useful = sequence.advance(num_tokens);
  recompute_credit_.earn(num_useful);
  totals_.num_tokens_computed += num_tokens;
  totals_.num_tokens_recomputed += num_tokens - num_useful;
  if (config_.policy == SchedulingPolicy::kFair) {
    share_.charge(sequence.request().tenant, num_useful);
  }
}

// As if each token had had a step to itself: each but the last was a draft, which is computed.
// Returns why the last of them ends the sequence.
std::optional<FinishReason> Scheduler::append_outputs(
    Sequence& sequence, std::span<const SampledToken> tokens, TimePoint now
) {
  CHECK(!tokens.empty(), "logits were read, and nothing was chosen");
  if (sequence.num_output_tokens() == 0) {
    totals_.num_prompt_tokens += sequence.num_prompt_tokens();
    if (sequence.request().sampling.n > 1) let_go_held(requests_.at(sequence.request().id));
  }
  std::optional<FinishReason> reason;
  for (const SampledToken& token : tokens) {
    CHECK(!reason, "a token after the end");
    if (&token != &tokens.front()) {
      count_computed(sequence, 1);
      sequence.settle();
      if (is_shared(sequence)) keep_computed(sequence, std::nullopt);
    }
    sequence.append_output(token.id, now);
    reason = find_finish_reason(sequence);
  }
  const auto num_tokens = static_cast<int64_t>(tokens.size());
  totals_.num_output_tokens += num_tokens;
  if (config_.policy == SchedulingPolicy::kFair) {
    share_.charge(sequence.request().tenant, num_tokens);
  }
  return reason;
}

// What has just been computed can be found from now on: full blocks, and the end of a prompt.
void Scheduler::keep_computed(Sequence& sequence, std::optional<HiddenSlotId> saved_to) {
  while (sequence.num_blocks_kept() < sequence.num_blocks_settled()) {
    const int32_t index = sequence.num_blocks_kept();
    const BlockId block = sequence.blocks().blocks()[static_cast<size_t>(index)];
    sequence.note_kept(cache_.keep(sequence.prefix(), index, config_.block_size, block));
  }
  const bool is_prompt_end = sequence.num_output_tokens() == 0 &&
                             sequence.num_settled_tokens() == sequence.num_prompt_tokens();
  if (!is_prompt_end) return;
  keep_tail(sequence);
  if (!saved_to) return;
  const int32_t last = (sequence.num_prompt_tokens() - 1) / config_.block_size;
  const BlockId block = sequence.blocks().blocks()[static_cast<size_t>(last)];
  cache_.keep_hidden(sequence.prefix(), block, *saved_to);
}

// The settled tokens after the last full block.
void Scheduler::keep_tail(Sequence& sequence) {
  const int32_t index = sequence.num_blocks_settled();
  const int32_t num_tokens = sequence.num_settled_tokens() - index * config_.block_size;
  if (num_tokens == 0) return;
  const BlockId block = sequence.blocks().blocks()[static_cast<size_t>(index)];
  cache_.keep(sequence.prefix(), index, num_tokens, block);
}

// Why the last output token is the last.
std::optional<FinishReason> Scheduler::find_finish_reason(const Sequence& sequence) const {
  const SamplingParams& sampling = sequence.request().sampling;
  const TokenId last = sequence.output().back();
  const auto contains = [last](std::span<const TokenId> ids) {
    return std::ranges::find(ids, last) != ids.end();
  };
  const bool may_stop = sequence.num_output_tokens() >= sampling.min_tokens;
  const bool is_eos = !sampling.ignore_eos && contains(config_.eos_token_ids);
  if (may_stop && (is_eos || contains(sampling.stop_token_ids))) return FinishReason::kStop;
  if (sequence.num_tokens() == sequence.num_tokens_max()) return FinishReason::kLength;
  return std::nullopt;
}

FinishedEvent Scheduler::finish(
    Entry& entry, Sequence& sequence, FinishReason reason, TimePoint now
) {
  leave_queue(entry, sequence);
  const bool is_trusted = reason != FinishReason::kError;
  if (is_trusted && is_shared(sequence)) keep_tail(sequence);
  const bool has_no_output = sequence.num_output_tokens() == 0;
  const std::vector<BlockId> blocks = sequence.finish();
  if (is_trusted) {
    cache_.release(blocks);
  } else {
    cache_.discard(blocks);
  }
  share_.leave(entry.request.tenant);
  --entry.num_unfinished;

  FinishedEvent event{
      .request = entry.request.id,
      .choice = sequence.choice(),
      .num_choices_unfinished = entry.num_unfinished,
      .reason = reason,
      .stop_token = std::nullopt,
      .error = std::nullopt,
      .timings = sequence.timings(),
      .when = now,
  };
  if (reason == FinishReason::kStop) event.stop_token = sequence.output().back();
  if (has_no_output) hand_prompt_on(entry);
  return event;
}

void Scheduler::forget_if_over(Entry& entry) {
  if (entry.num_unfinished > 0) return;
  if (entry.request.deadline) deadlines_.erase({*entry.request.deadline, entry.request.id});
  Requests::node_type node = requests_.extract(entry.request.id);
  InFlight& newest = last_.is_over() ? assumed_ : last_;
  if (!newest.is_over()) newest.outlived.push_back(std::move(node));
}

void Scheduler::leave_queue(Entry& entry, Sequence& sequence) {
  switch (sequence.state()) {
    case SequenceState::kHeld:
      --entry.num_held;
      --num_held_;
      num_held_tokens_ -= sequence.num_tokens();
      return;
    case SequenceState::kWaiting:
      recompute_credit_.refund(sequence.num_tokens_given_up());
      waiting_.erase(sequence, share_);
      return;
    case SequenceState::kRunning: {
      const auto place =
          std::lower_bound(running_.begin(), running_.end(), &sequence, BeforeInOrder{});
      CHECK(place != running_.end() && *place == &sequence, "a running sequence is not listed");
      running_.erase(place);
      return;
    }
    case SequenceState::kFinished:
      CHECK(false, "a sequence ends once");
  }
}

// A choice ended before it had a token. If it was the one that computed the prompt, another does.
void Scheduler::hand_prompt_on(Entry& entry) {
  if (entry.num_held == 0 || entry.num_held < entry.num_unfinished) return;
  const auto is_held = [](const Sequence& sequence) {
    return sequence.state() == SequenceState::kHeld;
  };
  Sequence& next = *std::ranges::find_if(entry.sequences, is_held);
  leave_queue(entry, next);
  next.let_go();
  waiting_.insert(next, share_);
}

// The prompt is computed: the other choices can start from it.
void Scheduler::let_go_held(Entry& entry) {
  if (entry.num_held == 0) return;
  for (Sequence& sequence : entry.sequences) {
    if (sequence.state() != SequenceState::kHeld) continue;
    leave_queue(entry, sequence);
    sequence.let_go();
    waiting_.insert(sequence, share_);
  }
}

}  // namespace millrace
