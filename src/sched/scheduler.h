// Decides which sequences the next step computes, how many tokens of each, and in which KV blocks.
// Pure bookkeeping: no I/O, clock, device or text; time and what was sampled come in as arguments,
// plans and events go out. The same calls give the same plans. Not thread-safe; owned and called by
// the engine thread.
//
// The rules
// - A step gives each sequence some of the tokens it wants (Sequence::num_wanted_tokens()); nothing
//   here distinguishes prompts from outputs.
// - Order: priority (under that policy), then arrival, then choice. All queues keep it, and a
//   preempted sequence returns to its old place.
// - Who runs gets at least one token and one logit row of every step: a sequence leaves one of each
//   for everyone behind it. So a long prompt does not delay the outputs of others.
// - Too few blocks: the last in order is preempted (its blocks are freed and it will be recomputed)
//   until those before it have what they need. The first in order is never preempted and always
//   advances, so the whole always advances. Who is last itself stalls for a step and keeps its
//   blocks rather than throw work away for nobody's sake.
// - Admission: only the first in order, and only if the free blocks hold all its tokens, what the
//   running sequences are still owed for tokens they have, and one further block for each of them.
//   Thus a sequence that is let in is computed in full before the pool can be short, and about
//   block_size steps pass before growth alone preempts it: preemption does not thrash. Who does not
//   fit is waited for and never overtaken, and nobody is preempted to let another in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/id.h"
#include "base/result.h"
#include "cache/block_pool.h"
#include "sched/finished_event.h"
#include "sched/request.h"
#include "sched/scheduler_config.h"
#include "sched/sequence.h"
#include "sched/step_plan.h"

namespace millrace {

struct SchedulerStats {
  int32_t num_running = 0;  // sequences
  int32_t num_waiting = 0;  // sequences
  int32_t num_blocks_free = 0;
  int32_t num_blocks = 0;
  int64_t num_tokens_computed = 0;  // since the start, with those computed again
  int64_t num_prompt_tokens = 0;    // since the start, of sequences that got their first token
  int64_t num_output_tokens = 0;    // since the start
  int64_t num_preemptions = 0;      // since the start
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

  // What to compute next. An empty plan: nothing is left to do, and there is nothing to commit.
  StepPlan plan(TimePoint now);

  // Takes the result of a plan: counters advance, sequences that reached their end give up their
  // blocks. `outcomes` has one entry for each scheduled sequence: a token exactly where it
  // samples(), or an error. Returns the end of each sequence that ended, in the plan's order.
  // REQUIRES: the plan is the last one, and it is committed once.
  std::vector<FinishedEvent> commit(
      const StepPlan& plan, std::span<const StepOutcome> outcomes, TimePoint now
  );

  bool is_idle() const { return requests_.empty(); }
  const SchedulerConfig& config() const { return config_; }
  SchedulerStats stats() const;

  // CHECKs that every block is accounted for and each sequence is where its state says.
  void check_invariants() const;

 private:
  struct Entry {
    Request request;
    std::vector<Sequence> sequences;  // [n], never resized: queues point into it
    int32_t num_unfinished = 0;
  };
  struct Before {
    using is_transparent = void;
    bool operator()(const Sequence* a, const Sequence* b) const {
      return a->precedence() < b->precedence();
    }
  };
  using Queue = std::set<Sequence*, Before>;

  // What is left of a step's limits.
  struct Budget {
    int32_t num_tokens = 0;
    int32_t num_logit_rows = 0;
  };
  struct Draft {
    StepPlan plan;
    Budget left;
  };

  void drop_cancelled_and_expired(Draft& draft, TimePoint now);
  void continue_running(Draft& draft);
  void admit_waiting(Draft& draft, TimePoint now);

  int32_t num_granted_tokens(const Sequence& sequence, Budget budget) const;
  bool make_room(Sequence& sequence, int32_t num_tokens);
  bool try_extend(Sequence& sequence, int32_t num_tokens);
  bool fits_with_headroom(const Sequence& candidate) const;
  void schedule(Sequence& sequence, int32_t num_tokens, Draft& draft);
  void preempt(Sequence& sequence);

  std::optional<FinishReason> find_finish_reason(const Sequence& sequence) const;
  FinishedEvent finish(Entry& entry, Sequence& sequence, FinishReason reason, TimePoint now);

  const SchedulerConfig config_;
  BlockPool pool_;
  std::map<RequestId, Entry> requests_;  // the unfinished ones; nodes stay where they are
  Queue waiting_;
  Queue running_;
  uint64_t num_added_ = 0;
  int64_t num_tokens_computed_ = 0;
  int64_t num_prompt_tokens_ = 0;
  int64_t num_output_tokens_ = 0;
  int64_t num_preemptions_ = 0;
};

}  // namespace millrace
