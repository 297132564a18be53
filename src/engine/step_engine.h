// The engine that computes: a scheduler, a model and a sampler in a loop of steps.
//
// One engine thread owns the scheduler, the model and the sampler. Everyone else reaches it through
// one bounded queue of values (submit, cancel, shutdown), and it sleeps while nothing is to be
// done.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/engine_core.h"
#include "engine/engine_event.h"
#include "engine/intake.h"
#include "engine/step_record.h"
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
  AdmissionLimits admission;
  int32_t n_max = 128;
  int32_t logprobs_max = 20;

  // See SchedulerConfig. Whoever serves strangers draws a key that they cannot know.
  bool enable_prefix_caching = true;
  SipKey prefix_hash_key;

  std::optional<NgramSpeculation> speculation = {};  // none: no token is guessed

  std::vector<TokenId> eos_token_ids;  // the model's; each ends a sequence unless ignore_eos
  uint64_t seed = 0;                   // requests without a seed get one that follows from this

  // Called on the engine thread after the events of each step; as short as a sink. May be empty.
  std::function<void()> on_step_end = {};

  StepRecorder::Write record = {};  // takes a recording of all steps (step_record.h). May be empty
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

  Result<RequestId> submit(EngineRequest request, std::shared_ptr<EventSink> sink) override {
    return intake_.submit(std::move(request), std::move(sink));
  }
  void cancel(RequestId id) override { intake_.cancel(id); }
  void cancel(RequestId id, int32_t choice) override { intake_.cancel(id, choice); }
  void reset_prefix_cache() override { intake_.reset_prefix_cache(); }
  EngineStats stats() const override;
  const EngineLimits& limits() const override { return intake_.limits(); }
  void shutdown(ShutdownMode mode) override;

  const SchedulerConfig& scheduler_config() const { return intake_.scheduler_config(); }

 private:
  StepEngine(
      std::unique_ptr<ModelRunner> runner, const EngineConfig& config, const SchedulerConfig& limits
  );

  // The engine thread.
  void run();
  void receive();
  void apply(Intake::Command command);
  void deliver(std::vector<EngineEvent> events);
  void publish_stats();

  const std::function<void()> on_step_end_;
  Intake intake_;

  mutable std::mutex mutex_;  // guards the next line
  EngineStats stats_;         // without what the intake fills in

  // Used by the engine thread only.
  EngineCore core_;
  std::unordered_map<RequestId, std::shared_ptr<EventSink>> sinks_;  // the other owner: submitter
  bool is_stopping_ = false;

  std::mutex join_mutex_;  // guards joining
  std::thread thread_;     // last: it uses all of the above
};

}  // namespace millrace
