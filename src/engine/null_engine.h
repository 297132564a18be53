// An engine without a model: it makes tokens up, at a rate, so that a server can be tested and
// measured alone.
//
// Choices run as in a real engine: at most max_num_seqs at once, the rest waits; the first token
// comes time_to_first_token after a choice begins to run, then tokens_per_second. A token is a pure
// function of seed, choice and position. Of the sampling fields, those that bound the length count
// (max_tokens, min_tokens, stop_token_ids), seed, n and the logprobs; those that shape a
// distribution do not, for there is none.
//
// One thread makes the tokens. It sleeps until the next one is due, and with nothing to do until
// something is. Each token's due time follows from the first one's, so that lateness does not add
// up; what is late is caught up with one token of each choice at a time. As the steps of a real
// engine do, a step serves all choices that are due at about the same time: after one it rests for
// a sixteenth of the time between two tokens of a choice, and 1 ms at most.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/id.h"
#include "base/result.h"
#include "engine/due_heap.h"
#include "engine/engine.h"
#include "engine/intake.h"
#include "engine/null_tokens.h"
#include "sched/finished_event.h"
#include "sched/request.h"
#include "sched/scheduler_config.h"
#include "sched/sequence.h"

namespace millrace {

// What goes wrong on purpose, for the tests of what stands before an engine.
struct NullEngineFaults {
  // The choices of a request whose prompt begins with this id fail instead of their next token,
  // after so many.
  std::optional<TokenId> failing_first_token;
  int32_t num_tokens_before_failure = 0;

  // Once, after so many steps that gave tokens, the engine thread stands still for `stall_time`.
  std::optional<int64_t> num_steps_before_stall;
  Duration stall_time{0};
};

struct NullEngineOptions {
  int64_t vocab_size = 0;
  std::vector<TokenId> plain_ids;   // distinct; what tokens are drawn from; more than logprobs_max
  double tokens_per_second = 50.0;  // of each choice that runs; 0.001 to 1e9
  Duration time_to_first_token{0};

  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
  int32_t max_model_len = 8192;
  int32_t max_num_seqs = 64;
  int32_t max_num_live_seqs = 4096;
  AdmissionLimits admission;
  int32_t n_max = 128;
  int32_t logprobs_max = 20;
  int32_t block_size = 16;  // the KV cache that the statistics tell of always holds all that runs
  uint64_t seed = 0;        // requests without a seed get one that follows from this
  NullEngineFaults faults;

  // Called on the engine thread after the events of each step; as short as a sink. May be empty.
  std::function<void()> on_step_end = {};
};

class NullEngine final : public Engine {
 public:
  // Starts the engine thread. Refuses options that cannot work; the error's `where` is the field.
  static Result<std::unique_ptr<NullEngine>> start(NullEngineOptions options);

  ~NullEngine() override;  // shutdown(kAbort)
  NullEngine(const NullEngine&) = delete;
  NullEngine& operator=(const NullEngine&) = delete;

  Result<RequestId> submit(EngineRequest request, std::shared_ptr<EventSink> sink) override {
    return intake_.submit(std::move(request), std::move(sink));
  }
  void cancel(RequestId id) override { intake_.cancel(id); }
  void cancel(RequestId id, int32_t choice) override { intake_.cancel(id, choice); }
  void reset_prefix_cache() override { intake_.reset_prefix_cache(); }
  EngineStats stats() const override;
  const EngineLimits& limits() const override { return intake_.limits(); }
  void shutdown(ShutdownMode mode) override;

 private:
  using SlotIndex = uint32_t;

  struct LiveRequest {
    Request request;
    std::shared_ptr<EventSink> sink;                // the other owner: the submitter
    std::vector<TokenId> stop_ids;                  // sorted
    std::vector<std::optional<SlotIndex>> choices;  // [n]; none: over
    int32_t num_unfinished = 0;                     // choices
    bool fails = false;
  };

  // One choice that runs or waits.
  struct Slot {
    LiveRequest* request = nullptr;  // none: the slot is free
    EventSink* sink = nullptr;       // the request's
    Precedence precedence;
    int32_t num_tokens_max = 0;  // of the output
    uint32_t turn = 0;           // how many choices had this slot before
    uint64_t key = 0;            // of its tokens
    bool is_running = false;
    TimePoint first_due;  // when the first token was due
    SequenceTimings timings;
  };

  NullEngine(NullEngineOptions options, const SchedulerConfig& config);

  // The engine thread.
  void run();
  void receive();
  std::optional<Intake::Command> next_command();
  std::optional<TimePoint> next_wake();
  void apply(Intake::Command command);
  void add(Intake::Submission submission);
  void cancel_all();
  void cancel(LiveRequest& request, FinishReason reason, TimePoint now);
  void step(TimePoint now);
  void expire(TimePoint now);
  void emit_due(TimePoint now);
  void prefetch(const Due& due, size_t step) const;
  void admit_waiting(TimePoint now);
  void emit_next(SlotIndex index, TimePoint now);
  void emit_prompt_logprobs(const LiveRequest& request);
  std::optional<Error> find_failure(const Slot& slot, std::optional<TokenId> next) const;
  void finish(SlotIndex index, FinishReason reason, std::optional<Error> error, TimePoint now);
  void publish_stats();
  void stall_if_told();

  bool is_stale(const Due& due) const { return slots_[due.slot].turn != due.turn; }
  TimePoint due_of(const Slot& slot, int32_t position) const;

  const NullEngineOptions options_;
  const Duration rest_time_;  // between two steps
  const NullTokens tokens_;
  Intake intake_;

  mutable std::mutex mutex_;  // guards the next line
  EngineStats stats_;         // without what the intake fills in

  // Used by the engine thread only.
  std::unordered_map<RequestId, LiveRequest> requests_;
  std::vector<Slot> slots_;
  std::vector<SlotIndex> free_slots_;
  std::set<std::pair<Precedence, SlotIndex>> waiting_;
  DueHeap running_;           // the next token of each choice that runs
  std::vector<Due> due_now_;  // of the step under way
  TimePoint last_step_;       // when it began
  std::set<std::pair<TimePoint, RequestId>> deadlines_;
  EngineStats counts_;
  int64_t num_kv_tokens_ = 0;  // of all that runs
  uint64_t num_added_ = 0;
  bool is_stopping_ = false;

  std::mutex join_mutex_;  // guards joining
  std::thread thread_;     // last: it uses all of the above
};

}  // namespace millrace
