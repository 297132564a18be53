// Runs a model for many callers at once: requests of token ids go in, events come out. An engine
// speaks token ids; text is its callers' business.
//
// The seam between a server and what generates for it: StepEngine computes in this process,
// NullEngine makes tokens up, so that a server can be tested and measured alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/id.h"
#include "base/result.h"
#include "engine/engine_event.h"
#include "engine/refusal.h"
#include "engine/step_sizes.h"
#include "sampling/sampling_params.h"
#include "sched/scheduler_config.h"
#include "sched/speculation.h"

namespace millrace {

struct EngineRequest {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  int32_t priority = 0;  // lower first, under the priority policy
  std::optional<TimePoint> deadline;
  // When whoever asks was asked, which its timings begin with; none: when the engine is.
  std::optional<TimePoint> arrival = {};

  // Only requests of the same salt share what was computed for their prompts. Empty: no salt.
  std::string cache_salt = {};
  // Whose request it is, for fair queueing: a server passes the API key's name. Empty: nobody's.
  std::string tenant = {};
};

// Where the events of a request go. A virtual function and not a queue for each request: a server
// with thousands of streams wants each event posted to the I/O thread of its connection, which a
// queue could only tell by waking a thread for it; a caller who prefers to wait wraps a queue
// (EventQueue). The sink's owner decides where events are kept. Their number is bounded by the
// request: max_tokens and one more for each choice, and one for each prompt position with logprobs.
class EventSink {
 public:
  virtual ~EventSink() = default;

  // Called on the engine thread, in order. Everybody's next token waits for it to return: it passes
  // the event on and neither blocks nor computes. It may call submit() and cancel().
  virtual void on_event(EngineEvent event) = 0;

  // On the engine thread, some events before on_event() or not at all: asks memory for what that
  // will touch. `step`: 0 to kNumPrefetchSteps - 1, an event apart; what one step asked for may be
  // read by the next, the sink's first cache line by all.
  static constexpr size_t kNumPrefetchSteps = 3;
  virtual void prefetch(size_t /*step*/) {}
};

enum class ShutdownMode {
  kDrain,  // finish what was accepted
  kAbort,  // cancel what was accepted
};

// As of the end of the last step.
struct EngineStats {
  int32_t num_running = 0;      // sequences
  int32_t num_waiting = 0;      // sequences
  int32_t num_live_seqs = 0;    // accepted and not finished: also what the engine has not seen yet
  int32_t num_blocks_free = 0;  // hold nothing
  int32_t num_blocks_cached = 0;  // hold prefixes that nobody uses now; given away when needed
  int32_t num_blocks = 0;
  int64_t num_waiting_tokens = 0;  // to be computed for the sequences that wait
  // Since the start, with those computed again and without drafts that were wrong.
  int64_t num_tokens_computed = 0;
  int64_t num_tokens_recomputed = 0;  // since the start: those alone
  int64_t num_prompt_tokens = 0;      // since the start, of sequences that got their first token
  int64_t num_output_tokens = 0;      // since the start
  int64_t num_preemptions = 0;        // since the start
  // Since the start, in tokens: what was looked up in the prefix cache, and what of it was there.
  int64_t num_prefix_queries = 0;
  int64_t num_prefix_hits = 0;
  int64_t num_block_copies = 0;  // since the start: of blocks of which the beginning was there
  int64_t num_resumed = 0;       // since the start: sequences that began without a forward pass
  SpeculationStats speculation;  // since the start
  int64_t num_steps = 0;         // since the start
  StepSizes step_sizes;          // of those steps
  Duration last_step_time{0};

  int32_t num_queued_seqs = 0;     // accepted, and neither run nor had a place when they came
  RefusalCounts num_refused = {};  // since the start
  // Over the last seconds in which there was work; 0: not known yet.
  double computed_tokens_per_second = 0.0;
  double output_tokens_per_second = 0.0;

  // Since when there has been work and no step has ended: how long an engine may be stuck. None
  // while there is nothing to do.
  std::optional<TimePoint> working_since;
};

// How much may wait, and how much may be promised, beside the number of live sequences. A waiting
// sequence holds little memory, so what is none by default is a matter of taste: how long clients
// would rather wait than be told to come back.
struct AdmissionLimits {
  // Sequences that wait for their first step: each choice of a request is one. A sequence that
  // finds a free place among the running ones does not wait. At least 1.
  std::optional<int32_t> max_num_queued_reqs = {};
  // Prompt tokens of those. A request that is the first to wait is taken whatever its length: it
  // would be refused for ever. At least 1.
  std::optional<int64_t> max_num_queued_tokens = {};
  // What the results of all live requests may come to, each at its longest: tokens and logprobs.
  // 1 GiB is 32,000 choices of 4096 tokens, or 1,300 with 20 logprobs for each token.
  int64_t max_result_bytes = int64_t{1} << 30;
};

// What an engine accepts at most.
struct EngineLimits {
  int64_t vocab_size = 0;
  int32_t num_sequence_tokens_max = 0;  // prompt and output
  int32_t n_max = 0;
  int32_t logprobs_max = 0;
  int32_t max_num_seqs = 0;       // that run at once
  int32_t max_num_live_seqs = 0;  // that run or wait
  int32_t block_size = 0;         // tokens of a KV block
  int32_t num_blocks = 0;
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
  bool enable_prefix_caching = false;
  std::optional<NgramSpeculation> speculation = {};  // none: no token is guessed
  AdmissionLimits admission = {};
};

// Thread-safe.
class Engine {
 public:
  virtual ~Engine() = default;

  // Checks the request on the calling thread and queues it; any thread. Once accepted, each of its
  // n choices ends in exactly one FinishedEvent. The engine shares the sink until the last of them.
  // kInvalidArgument: it can never run, `where` is the field. kResourceExhausted: a limit on what
  // is live or waits stands in its way (or there was no memory to queue it); its `reason` is
  // error_reason::kRateLimit if its own tenant holds more than an equal share, and `retry_after`
  // says when to come back. kDeadlineExceeded: the deadline has passed. kCancelled: the engine is
  // shutting down.
  virtual Result<RequestId> submit(EngineRequest request, std::shared_ptr<EventSink> sink) = 0;

  // Ends what is unfinished of a request, soon: a step may still be under way. Idempotent, never
  // blocks; nothing happens for a request that is over or never was.
  virtual void cancel(RequestId id) = 0;

  // The same for one choice: its text has come to a stop string, say. REQUIRES: the request has it.
  virtual void cancel(RequestId id, int32_t choice) = 0;

  // Forgets all prefixes that were computed: a request that is submitted after this returns shares
  // nothing with those submitted before. Sequences that run keep what they have.
  virtual void reset_prefix_cache() = 0;

  virtual EngineStats stats() const = 0;
  virtual const EngineLimits& limits() const = 0;

  // Refuses new requests, ends or cancels the accepted ones, and returns when nothing is left. A
  // second call waits too, and may turn a drain into an abort. Any thread but the engine's own.
  virtual void shutdown(ShutdownMode mode) = 0;
};

}  // namespace millrace
