// Runs a model for many callers at once: requests of token ids go in, events come out. The engine
// speaks token ids; text is its callers' business.
//
// One engine thread owns the scheduler, the model and the sampler. Everyone else reaches it through
// one bounded queue of values (submit, cancel, shutdown), and it sleeps while nothing is to be
// done.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/bounded_queue.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/result.h"
#include "engine/engine_core.h"
#include "engine/engine_event.h"
#include "model/model_runner.h"
#include "sampling/sampling_params.h"
#include "sched/scheduler_config.h"

namespace millrace {

struct EngineConfig {
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
  int32_t max_num_batched_tokens = 512;  // see SchedulerConfig, as the next three
  int32_t long_prefill_token_threshold = 256;
  int32_t max_num_seqs = 64;
  int32_t max_logit_rows = 64;
  std::optional<int32_t> max_model_len;  // none: the model's; never more than the model's

  // Sequences that run or wait, together; further requests are refused. A few thousand streams fit,
  // and what waits behind them would only time out.
  int32_t max_num_live_seqs = 4096;
  int32_t n_max = 128;
  int32_t logprobs_max = 20;

  std::vector<TokenId> eos_token_ids;  // of config.json and generation_config.json
  uint64_t seed = 0;                   // requests without a seed get one that follows from this
};

struct EngineRequest {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  int32_t priority = 0;  // lower first, under the priority policy
  std::optional<TimePoint> deadline;
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
};

enum class ShutdownMode {
  kDrain,  // finish what was accepted
  kAbort,  // cancel what was accepted
};

struct EngineStats {
  SchedulerStats scheduler;
  int32_t num_live_seqs = 0;  // accepted and not finished
  int64_t num_steps = 0;
  Duration last_step_time{0};
};

class Engine {
 public:
  // Starts the engine thread. Refuses limits that cannot work; the error's `where` is the field.
  static Result<std::unique_ptr<Engine>> start(
      std::unique_ptr<ModelRunner> runner, EngineConfig config
  );

  ~Engine();  // shutdown(kAbort)
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Checks the request on the calling thread and queues it; any thread. Once accepted, each of its
  // n choices ends in exactly one FinishedEvent. The engine shares the sink until the last of them.
  // kInvalidArgument: it can never run, `where` is the field. kResourceExhausted: too many live
  // sequences; try again later. kCancelled: the engine is shutting down.
  Result<RequestId> submit(EngineRequest request, std::shared_ptr<EventSink> sink);

  // Ends what is unfinished of a request, soon: a step may still be under way. Idempotent, never
  // blocks, any thread; nothing happens for a request that is over or never was.
  void cancel(RequestId id);

  // The same for one choice: its text has come to a stop string, say. REQUIRES: the request has it.
  void cancel(RequestId id, int32_t choice);

  // As of the end of the last step. Any thread.
  EngineStats stats() const;

  // Refuses new requests, ends or cancels the accepted ones, and returns when the engine thread is
  // gone. A second call waits too, and may turn a drain into an abort. Any thread but the engine's.
  void shutdown(ShutdownMode mode);

  const SchedulerConfig& scheduler_config() const { return scheduler_config_; }

 private:
  struct Submission {
    Request request;
    std::shared_ptr<EventSink> sink;
  };
  struct Cancellation {
    RequestId request;
    std::optional<int32_t> choice = std::nullopt;  // none: all of them
  };
  using Command = std::variant<Submission, Cancellation, ShutdownMode>;

  struct LiveRequest {
    int32_t num_choices_unfinished = 0;
    bool is_cancelled = false;           // as a whole
    std::vector<bool> choice_cancelled;  // [n], or over
  };

  Engine(std::unique_ptr<ModelRunner> runner, EngineConfig config, SchedulerConfig limits);

  Result<void> check(const EngineRequest& request) const;  // any thread
  void send(Command command);                              // with mutex_ held

  // The engine thread.
  void run();
  void receive();
  void apply(Command command);
  void deliver(std::vector<EngineEvent> events);
  void account(const EngineEvent& event);
  void publish_stats();

  const EngineConfig config_;
  const SchedulerConfig scheduler_config_;
  const int64_t vocab_size_;

  // Drained before each step. In between, a place among the live sequences can see one of its
  // sequence cancelled twice (choice and request), end, and be taken by another that is submitted
  // and cancelled twice: five commands; and one shutdown of each mode. So there is always room.
  BoundedQueue<Command> inbox_;

  mutable std::mutex mutex_;  // guards the next block; never held while a sink is called
  std::unordered_map<RequestId, LiveRequest> live_;
  int32_t num_live_seqs_ = 0;
  uint64_t num_accepted_ = 0;
  std::optional<ShutdownMode> shutdown_;  // the strongest asked for
  EngineStats stats_;

  // Used by the engine thread only.
  EngineCore core_;
  std::unordered_map<RequestId, std::shared_ptr<EventSink>> sinks_;  // the other owner: submitter
  bool is_stopping_ = false;

  std::mutex join_mutex_;  // guards joining
  std::thread thread_;     // last: it uses all of the above
};

}  // namespace millrace
