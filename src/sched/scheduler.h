// Decides which sequences the next step computes, how many tokens of each, and in which KV blocks.
// Pure bookkeeping: no I/O, clock, device or text; time and what was sampled come in as arguments,
// plans and events go out. The same calls give the same plans. Not thread-safe; owned and called by
// the engine thread.
//
// The rules
// - A step gives each sequence some of the tokens it wants (Sequence::num_wanted_tokens()); nothing
//   here distinguishes prompts from outputs.
// - Order: priority (under that policy), then arrival, then choice. All queues keep it, and a
//   preempted sequence returns to its old place. Under the fair policy the tenant that was served
//   least is admitted next (sched/fair_share.h).
// - Who runs gets at least one token and one logit row of every step: a sequence leaves one of each
//   for everyone behind it. So a long prompt does not delay the outputs of others by more than a
//   step of max_num_batched_tokens.
// - What the prefix cache holds is not computed again: of whole blocks, of the beginning of a block
//   (by a copy), and where all is there, not even once.
// - The choices of a request share its prompt: the first computes it, the others are held until
//   then and start as exact repeats. Requests behind them may start meanwhile, and run on.
// - Too few blocks: of those behind in order, the one that loses least is preempted
//   (sched/preemption.h), until there are enough. The first in order is never preempted and always
//   advances, so the whole always advances. Who is last itself stalls for a step and keeps its
//   blocks rather than throw work away for nobody's sake.
// - Drafts (sched/speculation.h) come last: they take what tokens and rows the step has left when
//   everybody has theirs, and blocks that are available, so they preempt nobody and hold nobody up.
//   Blocks that only wrong drafts were in are given back with the commit: what a sequence holds
//   between steps, and so who is admitted or preempted, is what it is without speculation.
// - A plan may be made while the step before it is still in flight (docs/decisions/0019): what that
//   step computes is taken for granted, and the token it chooses is pending: it counts, and nobody
//   knows it. Nothing is planned behind a last token that is certain by count. A stop token, an
//   error, a cancellation or a deadline may end a sequence that the step in flight computes: what
//   comes of that is void. Blocks are given away at once, which is right where steps are computed
//   in their order; they are found by others, and a preempted sequence starts again, only after the
//   step that computed them is committed.
// - Admission: only the next in order, and only if the free blocks hold all its tokens, what the
//   running sequences are still owed for tokens they have, and one further block for each of them.
//   Thus a sequence that is let in is computed in full before the pool can be short, and about
//   block_size steps pass before growth alone preempts it. While preemptions have wasted too much
//   of late (RecomputeCredit), the blocks must do for the longest end of everyone. Who does not fit
//   is waited for and never overtaken, and nobody is preempted to let another in.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/id.h"
#include "base/result.h"
#include "cache/prefix_cache.h"
#include "sched/draft_pace.h"
#include "sched/fair_share.h"
#include "sched/finished_event.h"
#include "sched/ngram_drafter.h"
#include "sched/preemption.h"
#include "sched/request.h"
#include "sched/scheduler_config.h"
#include "sched/sequence.h"
#include "sched/step_plan.h"
#include "sched/waiting_queue.h"

namespace millrace {

struct SchedulerStats {
  int32_t num_running = 0;  // sequences
  int32_t num_waiting = 0;  // sequences
  int32_t num_blocks_free = 0;
  int32_t num_blocks_cached = 0;  // hold prefixes that nobody uses now
  int32_t num_blocks = 0;
  int64_t num_waiting_tokens = 0;  // of the sequences that wait, to be computed
  // Since the start.
  int64_t num_tokens_computed = 0;  // with those computed again, without drafts that were wrong
  int64_t num_tokens_recomputed = 0;
  int64_t num_prompt_tokens = 0;  // of sequences that got their first token
  int64_t num_output_tokens = 0;
  int64_t num_preemptions = 0;
  int64_t num_prefix_queries = 0;  // prompt tokens that were looked up in the prefix cache
  int64_t num_prefix_hits = 0;     // and were there
  int64_t num_block_copies = 0;    // of blocks of which the beginning was there
  int64_t num_resumed = 0;         // sequences that began without a forward pass
  SpeculationStats speculation;
};

class Scheduler {
 public:
  // REQUIRES: validate(config) is ok.
  explicit Scheduler(SchedulerConfig config);

  // Queues the n sequences of a request, or says why they could never run (check_runnable).
  // REQUIRES: a new id; sampling parameters that are valid.
  Result<void> add(Request request);

  // The next plan() ends what is unfinished of the request, or of one of its choices; nothing if
  // there is no such thing.
  void cancel(RequestId id);
  void cancel(RequestId id, int32_t choice);
  void cancel_all();

  // What to compute next. An empty plan: nothing can be done now, and there is nothing to commit.
  // REQUIRES: the plan before it is committed; or it is assumed, and all before that are committed.
  StepPlan plan(TimePoint now);

  // Takes for granted that the step of a plan does what was planned, so that the next one can be
  // planned before its outcomes are known. The step's sequences stay valid until it is committed.
  // REQUIRES: the plan is the last one, is not empty and has no drafts; those before it are
  // committed.
  void assume(const StepPlan& plan);

  // Takes the result of a plan: counters advance, unless that was assumed; tokens become known;
  // sequences that reached their end give up their blocks. `outcomes` has one entry for each
  // scheduled sequence: tokens exactly where it samples, or an error; that of a void one is not
  // looked at. Returns the end of each sequence that ended, in the plan's order.
  // REQUIRES: the plan is the oldest that is not committed yet.
  std::vector<FinishedEvent> commit(
      const StepPlan& plan, std::span<const StepOutcome> outcomes, TimePoint now
  );

  // No request is unfinished, and no plan uncommitted.
  bool is_idle() const { return requests_.empty() && last_.is_over() && assumed_.is_over(); }
  const SchedulerConfig& config() const { return config_; }
  SchedulerStats stats() const;

  // CHECKs that every block is accounted for and each sequence is where its state says.
  void check_invariants() const;

 private:
  // What guesses for one sequence, and how much.
  struct Drafting {
    NgramDrafter drafter;
    DraftPace pace;
  };

  struct Entry {
    Request request;
    std::vector<Sequence> sequences;  // [n], never resized: queues point into it
    std::vector<Drafting> drafting;   // [n], or none without speculation
    int32_t num_unfinished = 0;
    int32_t num_held = 0;
  };
  using Requests = std::unordered_map<RequestId, Entry>;  // nodes stay where they are

  // A plan that is not committed yet.
  struct InFlight {
    std::vector<Sequence*> scheduled;           // in the plan's order
    std::vector<Requests::node_type> outlived;  // requests that ended meanwhile, and are in it
    bool is_over() const { return scheduled.empty(); }
  };

  // What is left of a step's limits.
  struct Budget {
    int32_t num_tokens = 0;
    int32_t num_logit_rows = 0;
  };
  struct Step {
    StepPlan plan;
    Budget left;
  };

  void drop_cancelled_and_expired(Step& step, TimePoint now);
  void drop(RequestId id, bool is_expired, Step& step, TimePoint now);
  void continue_running(Step& step);
  void admit_waiting(Step& step, TimePoint now);
  void admit(Sequence& sequence, const PrefixMatch& match, Step& step, TimePoint now);
  void add_drafts(Step& step);
  void add_drafts(Sequence& sequence, ScheduledSequence& stretch, Step& step);
  void guess(Sequence& sequence, int32_t num_sequences, int32_t num_tokens_max);
  std::vector<Drafting> make_drafting(const Request& request) const;

  int32_t num_granted_tokens(const Sequence& sequence, Budget budget) const;
  bool make_room(size_t running_index, int32_t num_tokens);
  bool try_extend(Sequence& sequence, int32_t num_tokens);
  int64_t num_blocks_reserved(const Sequence& sequence) const;
  void schedule(
      Sequence& sequence, int32_t num_tokens, std::optional<HiddenSlotId> resumed_from, Step& step
  );
  void preempt(size_t running_index);

  // Whether others may want what it computes: requests to come, or other choices of its own.
  bool is_shared(const Sequence& sequence) const {
    return config_.enable_prefix_caching || sequence.request().sampling.n > 1;
  }
  void keep_computed(Sequence& sequence, std::optional<HiddenSlotId> saved_to);
  void keep_tail(Sequence& sequence);

  void advance(Sequence& sequence, const ScheduledSequence& stretch);
  void settle(
      Sequence& sequence,
      const ScheduledSequence& stretch,
      const StepOutcome& outcome,
      TimePoint now,
      std::vector<FinishedEvent>& finished
  );
  void count_computed(Sequence& sequence, int32_t num_tokens);
  void settle_drafts(Sequence& sequence, const StepOutcome& outcome);
  std::optional<FinishReason> append_outputs(
      Sequence& sequence, std::span<const SampledToken> tokens, TimePoint now
  );

  std::optional<FinishReason> find_finish_reason(const Sequence& sequence) const;
  FinishedEvent finish(Entry& entry, Sequence& sequence, FinishReason reason, TimePoint now);
  void forget_if_over(Entry& entry);
  void leave_queue(Entry& entry, Sequence& sequence);
  void hand_prompt_on(Entry& entry);
  void let_go_held(Entry& entry);

  const SchedulerConfig config_;
  PrefixCache cache_;
  Requests requests_;  // the unfinished ones
  std::set<std::pair<TimePoint, RequestId>> deadlines_;
  std::vector<RequestId> cancelled_;  // since the last plan; may be over already
  WaitingQueue waiting_;
  FairShare share_;
  std::vector<Sequence*> running_;  // in order
  InFlight last_;                   // the last plan
  InFlight assumed_;                // the one before it, if it is assumed
  RecomputeCredit recompute_credit_;
  uint64_t num_added_ = 0;
  std::vector<TokenId> drafts_;      // of guess(), for which it would be allocated each time
  int32_t num_hidden_reserved_ = 0;  // slots that plans in flight write
  int32_t num_held_ = 0;
  int64_t num_held_tokens_ = 0;
  SchedulerStats totals_;  // those since the start
};

}  // namespace millrace
