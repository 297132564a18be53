#include "sched/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace millrace {

Scheduler::Scheduler(SchedulerConfig config)
    : config_(std::move(config)), pool_(config_.num_blocks) {
  CHECK(validate(config_).ok(), "the scheduler's limits were not validated");
}

Result<void> Scheduler::add(Request request) {
  if (auto runnable = check_runnable(config_, request.prompt.size()); !runnable) return runnable;
  const RequestId id = request.id;
  const auto [position, is_new] = requests_.try_emplace(id);
  CHECK(is_new, "a request id was used twice");

  Entry& entry = position->second;
  entry.request = std::move(request);
  const SamplingParams& sampling = entry.request.sampling;
  const int64_t num_tokens_asked =
      int64_t{sampling.max_tokens} + static_cast<int64_t>(entry.request.prompt.size());
  const bool is_by_priority = config_.policy == SchedulingPolicy::kPriority;

  entry.num_unfinished = sampling.n;
  entry.sequences.reserve(static_cast<size_t>(sampling.n));
  for (int32_t choice = 0; choice < sampling.n; ++choice) {
    entry.sequences.emplace_back(
        entry.request,
        Sequence::Options{
            .precedence =
                {.priority = is_by_priority ? entry.request.priority : 0,
                 .arrival = num_added_,
                 .choice = choice},
            .num_tokens_max = static_cast<int32_t>(
                std::min<int64_t>(num_tokens_asked, num_sequence_tokens_max(config_))
            ),
            .block_size = config_.block_size,
        }
    );
    waiting_.insert(&entry.sequences.back());
  }
  ++num_added_;
  return {};
}

void Scheduler::cancel(RequestId id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  for (Sequence& sequence : found->second.sequences) sequence.cancel();
}

void Scheduler::cancel(RequestId id, int32_t choice) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  std::vector<Sequence>& sequences = found->second.sequences;
  CHECK(choice >= 0 && static_cast<size_t>(choice) < sequences.size(), "a choice that never was");
  sequences[static_cast<size_t>(choice)].cancel();
}

void Scheduler::cancel_all() {
  for (const auto& [id, entry] : requests_) cancel(id);
}

StepPlan Scheduler::plan(TimePoint now) {
  Draft draft{
      .plan = {},
      .left =
          {.num_tokens = config_.max_num_batched_tokens, .num_logit_rows = config_.max_logit_rows},
  };
  drop_cancelled_and_expired(draft, now);
  continue_running(draft);
  admit_waiting(draft, now);

  CHECK(draft.left.num_tokens >= 0 && draft.left.num_logit_rows >= 0, "a step over its budget");
  CHECK(is_idle() || !draft.plan.is_empty(), "there is work, and nobody may do it");
  return std::move(draft.plan);
}

void Scheduler::drop_cancelled_and_expired(Draft& draft, TimePoint now) {
  for (auto next = requests_.begin(); next != requests_.end();) {
    const auto current = next++;
    Entry& entry = current->second;
    const bool is_expired = entry.request.deadline && *entry.request.deadline <= now;
    for (Sequence& sequence : entry.sequences) {
      if (sequence.state() == SequenceState::kFinished) continue;
      if (!sequence.is_cancelled() && !is_expired) continue;
      const FinishReason reason =
          sequence.is_cancelled() ? FinishReason::kCancelled : FinishReason::kDeadline;
      draft.plan.dropped.push_back(finish(entry, sequence, reason, now));
    }
    if (entry.num_unfinished == 0) requests_.erase(current);
  }
}

void Scheduler::continue_running(Draft& draft) {
  int32_t num_visited = 0;
  // Preemption removes only sequences behind the current one, so the iterator stays valid.
  for (Sequence* sequence : running_) {
    ++num_visited;
    const int32_t num_behind = static_cast<int32_t>(running_.size()) - num_visited;
    const int32_t num_tokens = num_granted_tokens(
        *sequence,
        {.num_tokens = draft.left.num_tokens - num_behind,
         .num_logit_rows = draft.left.num_logit_rows - num_behind}
    );
    if (make_room(*sequence, num_tokens)) schedule(*sequence, num_tokens, draft);
  }
}

void Scheduler::admit_waiting(Draft& draft, TimePoint now) {
  while (!waiting_.empty() && static_cast<int32_t>(running_.size()) < config_.max_num_seqs &&
         draft.left.num_tokens > 0 && draft.left.num_logit_rows > 0) {
    Sequence& sequence = **waiting_.begin();
    if (!fits_with_headroom(sequence)) return;
    waiting_.erase(waiting_.begin());
    running_.insert(&sequence);
    sequence.start(now);

    const int32_t num_tokens = num_granted_tokens(sequence, draft.left);
    CHECK(try_extend(sequence, num_tokens), "admitted without room");
    schedule(sequence, num_tokens, draft);
  }
}

// At least 1, as long as the budget is at least 1 token and 1 row.
int32_t Scheduler::num_granted_tokens(const Sequence& sequence, Budget budget) const {
  const int32_t num_tokens_without_logits =
      std::max(0, sequence.first_position_with_logits() - sequence.num_computed_tokens());
  return std::min(
      {sequence.num_wanted_tokens(),
       config_.long_prefill_token_threshold,
       budget.num_tokens,
       num_tokens_without_logits + budget.num_logit_rows}
  );
}

// Gives a running sequence the blocks for its next tokens, at the cost of those behind it.
// False: it is the last, and has to wait for blocks.
bool Scheduler::make_room(Sequence& sequence, int32_t num_tokens) {
  while (!try_extend(sequence, num_tokens)) {
    Sequence& last = **running_.rbegin();
    if (&last == &sequence) return false;
    preempt(last);
  }
  return true;
}

bool Scheduler::try_extend(Sequence& sequence, int32_t num_tokens) {
  const int32_t num_missing =
      sequence.blocks().num_blocks_missing(sequence.num_computed_tokens() + num_tokens);
  const auto blocks = pool_.try_allocate(static_cast<size_t>(num_missing));
  if (!blocks) return false;
  sequence.append_blocks(*blocks);
  return true;
}

// Never true for a sequence that this very step preempted: what it lacks went to those before it.
bool Scheduler::fits_with_headroom(const Sequence& candidate) const {
  const auto num_missing = [](const Sequence& sequence) {
    return int64_t{sequence.blocks().num_blocks_missing(sequence.num_tokens())};
  };
  int64_t num_blocks = num_missing(candidate);
  for (const Sequence* sequence : running_) num_blocks += num_missing(*sequence) + 1;
  return num_blocks <= pool_.num_free();
}

void Scheduler::schedule(Sequence& sequence, int32_t num_tokens, Draft& draft) {
  const ScheduledSequence scheduled{
      .sequence = &sequence,
      .first_token = sequence.num_computed_tokens(),
      .num_tokens = num_tokens,
      .num_logit_rows = sequence.num_logit_rows(num_tokens),
  };
  CHECK(num_tokens > 0, "a scheduled sequence without tokens");
  draft.left.num_tokens -= scheduled.num_tokens;
  draft.left.num_logit_rows -= scheduled.num_logit_rows;
  draft.plan.num_tokens += scheduled.num_tokens;
  draft.plan.num_logit_rows += scheduled.num_logit_rows;
  draft.plan.scheduled.push_back(scheduled);
}

void Scheduler::preempt(Sequence& sequence) {
  pool_.release(sequence.preempt());
  running_.erase(&sequence);
  waiting_.insert(&sequence);
  ++num_preemptions_;
}

std::vector<FinishedEvent> Scheduler::commit(
    const StepPlan& plan, std::span<const StepOutcome> outcomes, TimePoint now
) {
  CHECK(outcomes.size() == plan.scheduled.size(), "one outcome for each scheduled sequence");
  std::vector<FinishedEvent> finished;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const ScheduledSequence& scheduled = plan.scheduled[i];
    const auto found = requests_.find(scheduled.sequence->request().id);
    CHECK(found != requests_.end(), "the plan's sequence is gone");
    Entry& entry = found->second;
    Sequence& sequence = entry.sequences[static_cast<size_t>(scheduled.sequence->choice())];
    CHECK(sequence.num_computed_tokens() == scheduled.first_token, "the plan is not the last one");

    const auto* token = std::get_if<SampledToken>(&outcomes[i]);
    const auto* error = std::get_if<Error>(&outcomes[i]);
    CHECK(error || (token != nullptr) == scheduled.samples(), "a token exactly where one is due");
    sequence.advance(scheduled.num_tokens);
    num_tokens_computed_ += scheduled.num_tokens;
    if (token) {
      if (sequence.num_output_tokens() == 0) num_prompt_tokens_ += sequence.num_prompt_tokens();
      sequence.append_output(token->id, now);
      ++num_output_tokens_;
    }

    const std::optional<FinishReason> reason = error   ? FinishReason::kError
                                               : token ? find_finish_reason(sequence)
                                                       : std::nullopt;
    if (!reason) continue;
    finished.push_back(finish(entry, sequence, *reason, now));
    if (error) finished.back().error = *error;
    if (entry.num_unfinished == 0) requests_.erase(found);
  }
  return finished;
}

// Why the last output token is the last.
std::optional<FinishReason> Scheduler::find_finish_reason(const Sequence& sequence) const {
  const SamplingParams& sampling = sequence.request().sampling;
  const TokenId last = sequence.output().back();
  const auto contains = [last](const std::vector<TokenId>& ids) {
    return std::find(ids.begin(), ids.end(), last) != ids.end();
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
  Queue& queue = sequence.state() == SequenceState::kRunning ? running_ : waiting_;
  CHECK(queue.erase(&sequence) == 1, "a sequence was not in its queue");
  pool_.release(sequence.finish());
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
  return event;
}

SchedulerStats Scheduler::stats() const {
  return {
      .num_running = static_cast<int32_t>(running_.size()),
      .num_waiting = static_cast<int32_t>(waiting_.size()),
      .num_blocks_free = pool_.num_free(),
      .num_blocks = pool_.num_blocks(),
      .num_tokens_computed = num_tokens_computed_,
      .num_prompt_tokens = num_prompt_tokens_,
      .num_output_tokens = num_output_tokens_,
      .num_preemptions = num_preemptions_,
  };
}

void Scheduler::check_invariants() const {
  pool_.check_invariants();
  CHECK(static_cast<int32_t>(running_.size()) <= config_.max_num_seqs, "too many sequences run");

  size_t num_unfinished = 0;
  std::vector<int32_t> num_references(static_cast<size_t>(pool_.num_blocks()), 0);
  for (const auto& [id, entry] : requests_) {
    int32_t num_unfinished_here = 0;
    for (const Sequence& sequence : entry.sequences) {
      sequence.check_invariants();
      const SequenceState state = sequence.state();
      CHECK(waiting_.contains(&sequence) == (state == SequenceState::kWaiting), "not in its queue");
      CHECK(running_.contains(&sequence) == (state == SequenceState::kRunning), "not in its queue");
      if (state != SequenceState::kFinished) ++num_unfinished_here;
      for (const BlockId block : sequence.blocks().blocks()) {
        ++num_references[static_cast<size_t>(block.value)];
      }
    }
    CHECK(num_unfinished_here > 0, "a request that is over is still here");
    CHECK(num_unfinished_here == entry.num_unfinished, "unfinished sequences are miscounted");
    num_unfinished += static_cast<size_t>(num_unfinished_here);
  }
  CHECK(waiting_.size() + running_.size() == num_unfinished, "a queue holds a stranger");
  for (int32_t block = 0; block < pool_.num_blocks(); ++block) {
    CHECK(
        pool_.num_references(BlockId{block}) == num_references[static_cast<size_t>(block)],
        "a block's references are not those of the block tables"
    );
  }
}

}  // namespace millrace
