#include "sched/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/math.h"

namespace millrace {
namespace {

// Where a sequence is in `running`, or would be.
std::vector<Sequence*>::iterator place_of(std::vector<Sequence*>& running, Sequence& sequence) {
  return std::lower_bound(running.begin(), running.end(), &sequence, BeforeInOrder{});
}

}  // namespace

Scheduler::Scheduler(SchedulerConfig config)
    : config_(std::move(config)),
      cache_(
          {.num_blocks = config_.num_blocks,
           .block_size = config_.block_size,
           .num_hidden_slots = config_.num_hidden_slots,
           .keeps_idle_blocks = config_.enable_prefix_caching,
           .hash_key = config_.prefix_hash_key}
      ),
      recompute_credit_(int64_t{config_.num_blocks} * config_.block_size) {
  CHECK(validate(config_).ok(), "the scheduler's limits were not validated");
}

Result<void> Scheduler::add(Request request) {
  if (auto runnable = check_runnable(config_, request.prompt.size()); !runnable) return runnable;
  const RequestId id = request.id;
  const auto [position, is_new] = requests_.try_emplace(id);
  CHECK(is_new, "a request id was used twice");

  Entry& entry = position->second;
  entry.request = std::move(request);
  if (config_.policy != SchedulingPolicy::kFair) entry.request.tenant = {};
  if (entry.request.deadline) deadlines_.emplace(*entry.request.deadline, id);
  const SamplingParams& sampling = entry.request.sampling;
  const int64_t num_tokens_asked =
      int64_t{sampling.max_tokens} + static_cast<int64_t>(entry.request.prompt.size());
  const bool is_by_priority = config_.policy == SchedulingPolicy::kPriority;

  entry.num_unfinished = sampling.n;
  if (config_.speculation) entry.drafting = make_drafting(entry.request);
  entry.sequences.reserve(static_cast<size_t>(sampling.n));
  for (int32_t choice = 0; choice < sampling.n; ++choice) {
    Sequence& sequence = entry.sequences.emplace_back(
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
    share_.enter(entry.request.tenant);
    if (choice == 0) {
      waiting_.insert(sequence, share_);
    } else {
      sequence.hold();
      ++entry.num_held;
      ++num_held_;
      num_held_tokens_ += sequence.num_tokens();
    }
  }
  ++num_added_;
  return {};
}

void Scheduler::cancel(RequestId id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  for (Sequence& sequence : found->second.sequences) sequence.cancel();
  cancelled_.push_back(id);
}

void Scheduler::cancel(RequestId id, int32_t choice) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  std::vector<Sequence>& sequences = found->second.sequences;
  CHECK(choice >= 0 && static_cast<size_t>(choice) < sequences.size(), "a choice that never was");
  sequences[static_cast<size_t>(choice)].cancel();
  cancelled_.push_back(id);
}

// In the order in which they were added: a map's order depends on its addresses.
void Scheduler::cancel_all() {
  std::vector<RequestId> ids;
  for (const auto& [id, entry] : requests_) ids.push_back(id);
  std::ranges::sort(ids);
  for (const RequestId id : ids) cancel(id);
}

StepPlan Scheduler::plan(TimePoint now) {
  CHECK(last_.is_over(), "the last plan is neither committed nor assumed");
  Step step{
      .plan = {},
      .left =
          {.num_tokens = config_.max_num_batched_tokens, .num_logit_rows = config_.max_logit_rows},
  };
  step.plan.scheduled.reserve(running_.size());
  drop_cancelled_and_expired(step, now);
  continue_running(step);
  admit_waiting(step, now);
  if (config_.speculation) add_drafts(step);

  CHECK(step.left.num_tokens >= 0 && step.left.num_logit_rows >= 0, "a step over its budget");
  const bool may_wait = requests_.empty() || !assumed_.is_over();
  CHECK(may_wait || !step.plan.is_empty(), "there is work, and nobody may do it");
  return std::move(step.plan);
}

void Scheduler::drop_cancelled_and_expired(Step& step, TimePoint now) {
  for (const RequestId id : std::exchange(cancelled_, {})) drop(id, false, step, now);
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    drop(deadlines_.begin()->second, true, step, now);
  }
}

// Ends the cancelled choices of a request, or all of them if its time is over.
void Scheduler::drop(RequestId id, bool is_expired, Step& step, TimePoint now) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  Entry& entry = found->second;
  for (Sequence& sequence : entry.sequences) {
    if (sequence.state() == SequenceState::kFinished) continue;
    if (!sequence.is_cancelled() && !is_expired) continue;
    const FinishReason reason =
        sequence.is_cancelled() ? FinishReason::kCancelled : FinishReason::kDeadline;
    step.plan.dropped.push_back(finish(entry, sequence, reason, now));
  }
  forget_if_over(entry);
}

void Scheduler::continue_running(Step& step) {
  // Preemption removes only sequences behind the current one, so the index stays valid.
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.is_full()) continue;  // its last token is pending
    const auto num_behind = static_cast<int32_t>(running_.size() - i - 1);
    const int32_t num_tokens = num_granted_tokens(
        sequence,
        {.num_tokens = step.left.num_tokens - num_behind,
         .num_logit_rows = step.left.num_logit_rows - num_behind}
    );
    if (make_room(i, num_tokens)) schedule(sequence, num_tokens, std::nullopt, step);
  }
}

void Scheduler::admit_waiting(Step& step, TimePoint now) {
  if (waiting_.empty()) return;
  int64_t num_reserved = 0;
  for (const Sequence* sequence : running_) num_reserved += num_blocks_reserved(*sequence);
  while (!waiting_.empty() && static_cast<int32_t>(running_.size()) < config_.max_num_seqs &&
         step.left.num_tokens > 0 && step.left.num_logit_rows > 0 &&
         num_reserved <= cache_.num_available()) {
    Sequence& sequence = waiting_.next(share_);
    if (sequence.is_in_flight()) return;
    const PrefixMatch match = cache_.match(sequence.prefix(), sequence.num_tokens_cacheable());
    const bool may_overcommit = !recompute_credit_.is_in_debt();
    const int32_t num_tokens =
        may_overcommit ? sequence.num_tokens() : sequence.num_tokens_max() - 1;
    const int32_t num_missing =
        div_ceil(num_tokens, config_.block_size) - static_cast<int32_t>(match.blocks.size());
    if (num_reserved + num_missing > cache_.num_available_beside(match)) return;
    admit(sequence, match, step, now);
    num_reserved += num_blocks_reserved(sequence);
  }
}

// Blocks that are spoken for, beside those it has: for the tokens of a running sequence and one
// more; or, while in debt, for its longest possible end. The last token is never computed.
int64_t Scheduler::num_blocks_reserved(const Sequence& sequence) const {
  const BlockTable& blocks = sequence.blocks();
  if (recompute_credit_.is_in_debt()) {
    return blocks.num_blocks_missing(sequence.num_tokens_max() - 1);
  }
  return blocks.num_blocks_missing(sequence.num_tokens()) + 1;
}

void Scheduler::admit(Sequence& sequence, const PrefixMatch& match, Step& step, TimePoint now) {
  const bool is_first_time = !sequence.timings().first_scheduled.has_value();
  if (is_first_time && config_.enable_prefix_caching) {
    totals_.num_prefix_queries += sequence.num_prompt_tokens();
    totals_.num_prefix_hits += match.num_tokens;
  }
  waiting_.erase(sequence, share_);
  running_.insert(place_of(running_, sequence), &sequence);
  cache_.take(match);
  recompute_credit_.refund(std::min(sequence.num_tokens_given_up(), match.num_tokens));
  sequence.start(match, now);

  const int32_t num_tokens = match.hidden ? 0 : num_granted_tokens(sequence, step.left);
  CHECK(try_extend(sequence, num_tokens), "admitted without room");
  if (match.part) {
    // A block whose last use lies longest back may be given to the very sequence that wants it.
    const BlockId copy = sequence.blocks().blocks()[match.blocks.size()];
    if (copy != match.part->block) step.plan.copies.push_back({match.part->block, copy});
    ++totals_.num_block_copies;
  }
  if (match.hidden) ++totals_.num_resumed;
  schedule(sequence, num_tokens, match.hidden, step);
}

// At least 1, as long as the budget is at least 1 token and 1 row.
int32_t Scheduler::num_granted_tokens(const Sequence& sequence, Budget budget) const {
  const int32_t num_tokens_without_logits =
      std::max(0, sequence.first_position_with_logits() - sequence.num_computed_tokens());
  const int64_t num_tokens_with_rows = int64_t{num_tokens_without_logits} + budget.num_logit_rows;
  const int32_t num_tokens_max = std::min(
      {sequence.num_wanted_tokens(), config_.long_prefill_token_threshold, budget.num_tokens}
  );
  return static_cast<int32_t>(std::min<int64_t>(num_tokens_max, num_tokens_with_rows));
}

// Gives a running sequence the blocks for its next tokens, at the cost of those behind it.
// False: nobody behind it has any, and it has to wait for blocks.
bool Scheduler::make_room(size_t running_index, int32_t num_tokens) {
  Sequence& sequence = *running_[running_index];
  while (!try_extend(sequence, num_tokens)) {
    const int32_t num_missing =
        sequence.blocks().num_blocks_missing(sequence.num_computed_tokens() + num_tokens);
    const std::span<Sequence* const> behind = std::span(running_).subspan(running_index + 1);
    const std::optional<size_t> victim =
        choose_victim(behind, cache_.pool(), num_missing - cache_.num_available());
    if (!victim) return false;
    preempt(running_index + 1 + *victim);
  }
  return true;
}

bool Scheduler::try_extend(Sequence& sequence, int32_t num_tokens) {
  const int32_t num_missing =
      sequence.blocks().num_blocks_missing(sequence.num_computed_tokens() + num_tokens);
  if (num_missing == 0) return true;
  const auto blocks = cache_.try_allocate(static_cast<size_t>(num_missing));
  if (!blocks) return false;
  sequence.append_blocks(*blocks);
  return true;
}

void Scheduler::schedule(
    Sequence& sequence, int32_t num_tokens, std::optional<HiddenSlotId> resumed_from, Step& step
) {
  ScheduledSequence& stretch = step.plan.scheduled.emplace_back();
  stretch.sequence = &sequence;
  stretch.num_tokens = num_tokens;
  stretch.resumed_from = resumed_from;
  stretch.first_token = sequence.num_computed_tokens();
  stretch.samples = stretch.end_token() == sequence.num_tokens();
  stretch.num_logit_rows = stretch.resumed_from ? 1 : sequence.num_logit_rows(stretch.num_tokens);
  CHECK((stretch.num_tokens == 0) == stretch.resumed_from.has_value(), "nothing to compute");
  const bool ends_prompt =
      stretch.end_token() == sequence.num_prompt_tokens() && sequence.num_output_tokens() == 0;
  if (ends_prompt && is_shared(sequence) && !stretch.resumed_from) {
    stretch.saved_to = cache_.reserve_hidden(sequence.prefix());
    if (stretch.saved_to) ++num_hidden_reserved_;
  }
  step.left.num_tokens -= stretch.num_tokens;
  step.left.num_logit_rows -= stretch.num_logit_rows;
  step.plan.num_tokens += stretch.num_tokens;
  step.plan.num_logit_rows += stretch.num_logit_rows;
  last_.scheduled.push_back(&sequence);
}

void Scheduler::preempt(size_t running_index) {
  Sequence& sequence = *running_[running_index];
  recompute_credit_.spend(sequence.num_computed_tokens());
  if (is_shared(sequence)) keep_tail(sequence);
  cache_.release(sequence.preempt());
  running_.erase(running_.begin() + static_cast<ptrdiff_t>(running_index));
  waiting_.insert(sequence, share_);
  ++totals_.num_preemptions;
}

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = totals_;
  stats.num_running = static_cast<int32_t>(running_.size());
  stats.num_waiting = waiting_.size() + num_held_;
  stats.num_blocks_free = cache_.pool().num_free();
  stats.num_blocks_cached = cache_.pool().num_idle();
  stats.num_blocks = cache_.pool().num_blocks();
  stats.num_waiting_tokens = waiting_.num_tokens() + num_held_tokens_;
  return stats;
}

void Scheduler::check_invariants() const {
  cache_.check_invariants(num_hidden_reserved_);
  CHECK(static_cast<int32_t>(running_.size()) <= config_.max_num_seqs, "too many sequences run");
  CHECK(
      std::ranges::is_sorted(running_, BeforeInOrder{}), "the running sequences are not in order"
  );

  int32_t num_waiting = 0;
  int32_t num_held = 0;
  size_t num_running = 0;
  int64_t num_in_flight = 0;
  std::vector<int32_t> num_references(static_cast<size_t>(config_.num_blocks), 0);
  for (const auto& [id, entry] : requests_) {
    int32_t num_unfinished = 0;
    int32_t num_held_here = 0;
    for (const Sequence& sequence : entry.sequences) {
      sequence.check_invariants();
      const SequenceState state = sequence.state();
      const bool is_listed = std::ranges::binary_search(running_, &sequence, BeforeInOrder{});
      CHECK(waiting_.contains(sequence) == (state == SequenceState::kWaiting), "not in its queue");
      CHECK(is_listed == (state == SequenceState::kRunning), "not in its queue");
      if (state != SequenceState::kFinished) ++num_unfinished;
      if (state == SequenceState::kHeld) ++num_held_here;
      if (state == SequenceState::kWaiting) ++num_waiting;
      if (state == SequenceState::kRunning) ++num_running;
      if (state != SequenceState::kFinished && sequence.is_in_flight()) ++num_in_flight;
      for (const BlockId block : sequence.blocks().blocks()) {
        ++num_references[static_cast<size_t>(block.value)];
      }
    }
    CHECK(num_unfinished > 0, "a request that is over is still here");
    CHECK(num_unfinished == entry.num_unfinished, "unfinished sequences are miscounted");
    CHECK(num_held_here == entry.num_held, "held sequences are miscounted");
    CHECK(num_held_here < num_unfinished, "all choices wait for one another");
    num_held += num_held_here;
  }
  CHECK(
      waiting_.size() == num_waiting && running_.size() == num_running, "a queue holds a stranger"
  );
  CHECK(num_held == num_held_, "held sequences are miscounted");
  const auto is_unfinished = [](const Sequence* sequence) {
    return sequence->state() != SequenceState::kFinished;
  };
  CHECK(
      num_in_flight == std::ranges::count_if(assumed_.scheduled, is_unfinished),
      "a sequence waits for a step that is none"
  );
  for (int32_t block = 0; block < config_.num_blocks; ++block) {
    CHECK(
        cache_.pool().num_references(BlockId{block}) == num_references[static_cast<size_t>(block)],
        "a block's references are not those of the block tables"
    );
  }
}

}  // namespace millrace
