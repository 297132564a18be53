// The engine that computes: a scheduler, a model and a sampler in a loop of steps.
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
#include "engine/engine.h"
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

class StepEngine final : public Engine {
 public:
  // Starts the engine thread. Refuses limits that cannot work; the error's `where` is the field.
  static Result<std::unique_ptr<StepEngine>> start(
      std::unique_ptr<ModelRunner> runner, EngineConfig config
  );

  ~StepEngine() override;  // shutdown(kAbort)
  StepEngine(const StepEngine&) = delete;
  StepEngine& operator=(const StepEngine&) = delete;

  Result<RequestId> submit(EngineRequest request, std::shared_ptr<EventSink> sink) override;
  void cancel(RequestId id) override;
  void cancel(RequestId id, int32_t choice) override;
  EngineStats stats() const override;
  const EngineLimits& limits() const override { return limits_; }
  void shutdown(ShutdownMode mode) override;

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

  StepEngine(std::unique_ptr<ModelRunner> runner, EngineConfig config, SchedulerConfig limits);

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
  const EngineLimits limits_;

  // Drained before each step. In between, a place among the live sequences can see one of its
  // sequence cancelled twice (choice and request), end, and be taken by another that is submitted
  // and cancelled twice: five commands; and one shutdown of each mode. So there is always room.
  BoundedQueue<Command> inbox_;

  mutable std::mutex mutex_;  // guards the next block; never held while a sink is called
  std::unordered_map<RequestId, LiveRequest> live_;
  int32_t num_live_seqs_ = 0;
  uint64_t num_accepted_ = 0;
  std::optional<ShutdownMode> shutdown_;  // the strongest asked for
  EngineStats stats_;                     // without what stats() fills in
  TimePoint last_progress_;               // the end of a step, or the first request after idleness

  // Used by the engine thread only.
  EngineCore core_;
  std::unordered_map<RequestId, std::shared_ptr<EventSink>> sinks_;  // the other owner: submitter
  bool is_stopping_ = false;

  std::mutex join_mutex_;  // guards joining
  std::thread thread_;     // last: it uses all of the above
};

}  // namespace millrace
