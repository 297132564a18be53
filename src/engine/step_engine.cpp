#include "engine/step_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "engine/engine_thread.h"

namespace millrace {
namespace {

SchedulerConfig scheduler_config_of(const EngineConfig& config, const ModelRunner& runner) {
  const auto model_len = static_cast<int32_t>(
      std::min<int64_t>(runner.max_model_len(), std::numeric_limits<int32_t>::max())
  );
  return {
      .policy = config.policy,
      .max_num_batched_tokens = config.max_num_batched_tokens,
      .long_prefill_token_threshold = config.long_prefill_token_threshold,
      .max_num_seqs = config.max_num_seqs,
      .max_logit_rows = config.max_logit_rows,
      .max_model_len = config.max_model_len.value_or(model_len),
      .block_size = runner.block_size(),
      .num_blocks = runner.num_blocks(),
      .enable_prefix_caching = config.enable_prefix_caching,
      .prefix_hash_key = config.prefix_hash_key,
      .num_hidden_slots = runner.num_hidden_slots(),
      .eos_token_ids = config.eos_token_ids,
      .speculation = config.speculation,
  };
}

Result<void> check_config(const EngineConfig& config, const ModelRunner& runner) {
  if (config.max_model_len && *config.max_model_len > runner.max_model_len()) {
    return invalid_argument(
        fmt::format(
            "max_model_len is {}; the model was made for at most {} tokens",
            *config.max_model_len,
            runner.max_model_len()
        ),
        "max_model_len"
    );
  }
  for (const TokenId id : config.eos_token_ids) {
    if (id >= 0 && id < runner.vocab_size()) continue;
    return invalid_argument(
        fmt::format("end-of-sequence token {} is not below {}", id, runner.vocab_size()),
        "eos_token_ids"
    );
  }
  if (config.n_max < 1 || config.n_max > config.max_num_live_seqs) {
    return invalid_argument(
        fmt::format(
            "n_max must be between 1 and max_num_live_seqs ({}), got {}",
            config.max_num_live_seqs,
            config.n_max
        ),
        "n_max"
    );
  }
  return check_admission(config.admission);
}

EngineLimits limits_of(
    const EngineConfig& config, const SchedulerConfig& scheduler, int64_t vocab_size
) {
  return {
      .vocab_size = vocab_size,
      .num_sequence_tokens_max = num_sequence_tokens_max(scheduler),
      .n_max = config.n_max,
      .logprobs_max = config.logprobs_max,
      .max_num_seqs = scheduler.max_num_seqs,
      .max_num_live_seqs = config.max_num_live_seqs,
      .block_size = scheduler.block_size,
      .num_blocks = scheduler.num_blocks,
      .policy = scheduler.policy,
      .enable_prefix_caching = scheduler.enable_prefix_caching,
      .speculation = scheduler.speculation,
      .admission = config.admission,
  };
}

}  // namespace

Result<std::unique_ptr<StepEngine>> StepEngine::start(
    std::unique_ptr<ModelRunner> runner, EngineConfig config
) {
  CHECK(runner != nullptr, "an engine needs a model");
  if (auto checked = check_config(config, *runner); !checked) return checked.error();
  const SchedulerConfig limits = scheduler_config_of(config, *runner);
  if (auto valid = validate(limits); !valid) return valid.error();
  return std::unique_ptr<StepEngine>(new StepEngine(std::move(runner), config, limits));
}

StepEngine::StepEngine(
    std::unique_ptr<ModelRunner> runner, const EngineConfig& config, const SchedulerConfig& limits
)
    : on_step_end_(config.on_step_end),
      intake_(limits, limits_of(config, limits, runner->vocab_size()), config.seed),
      core_(limits, std::move(runner), Clock::now, config.record),
      thread_([this] { run(); }) {}

StepEngine::~StepEngine() {
  shutdown(ShutdownMode::kAbort);
}

EngineStats StepEngine::stats() const {
  EngineStats stats;
  {
    const std::lock_guard lock(mutex_);
    stats = stats_;
  }
  intake_.fill(stats);
  return stats;
}

void StepEngine::shutdown(ShutdownMode mode) {
  intake_.shut_down(mode);
  const std::lock_guard lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

void StepEngine::run() {
  become_engine_thread();
  for (;;) {
    receive();
    if (is_stopping_ && core_.is_idle()) break;
    deliver(core_.step());
    if (on_step_end_) on_step_end_();
    publish_stats();
  }
  CHECK(sinks_.empty(), "a request was left without an end");
}

// Takes all that has been sent; with nothing to compute, sleeps until something is.
void StepEngine::receive() {
  const bool may_sleep = core_.is_idle() && !is_stopping_;
  std::optional<Intake::Command> command = may_sleep ? intake_.pop() : intake_.try_pop();
  for (; command; command = intake_.try_pop()) apply(std::move(*command));
}

void StepEngine::apply(Intake::Command command) {
  if (auto* submission = std::get_if<Intake::Submission>(&command)) {
    sinks_.emplace(submission->request.id, std::move(submission->sink));
    const bool is_added = core_.add(std::move(submission->request)).ok();
    CHECK(is_added, "submit() accepted what the scheduler refuses");
  } else if (const auto* cancellation = std::get_if<Intake::Cancellation>(&command)) {
    if (cancellation->choice) {
      core_.cancel(cancellation->request, *cancellation->choice);
    } else {
      core_.cancel(cancellation->request);
    }
  } else {
    is_stopping_ = true;
    if (std::get<ShutdownMode>(command) == ShutdownMode::kAbort) core_.cancel_all();
  }
}

void StepEngine::deliver(std::vector<EngineEvent> events) {
  for (EngineEvent& event : events) {
    const RequestId id = request_of(event);
    const auto* finished = std::get_if<FinishedEvent>(&event);
    if (finished != nullptr) intake_.account(*finished);
    const bool is_over = finished != nullptr && finished->num_choices_unfinished == 0;
    const auto found = sinks_.find(id);
    CHECK(found != sinks_.end(), "an event of a request that is over");
    found->second->on_event(std::move(event));
    if (is_over) sinks_.erase(found);
  }
}

void StepEngine::publish_stats() {
  const SchedulerStats scheduler = core_.scheduler_stats();
  const EngineStats stats{
      .num_running = scheduler.num_running,
      .num_waiting = scheduler.num_waiting,
      .num_blocks_free = scheduler.num_blocks_free,
      .num_blocks_cached = scheduler.num_blocks_cached,
      .num_blocks = scheduler.num_blocks,
      .num_waiting_tokens = scheduler.num_waiting_tokens,
      .num_tokens_computed = scheduler.num_tokens_computed,
      .num_tokens_recomputed = scheduler.num_tokens_recomputed,
      .num_prompt_tokens = scheduler.num_prompt_tokens,
      .num_output_tokens = scheduler.num_output_tokens,
      .num_preemptions = scheduler.num_preemptions,
      .num_prefix_queries = scheduler.num_prefix_queries,
      .num_prefix_hits = scheduler.num_prefix_hits,
      .num_block_copies = scheduler.num_block_copies,
      .num_resumed = scheduler.num_resumed,
      .speculation = scheduler.speculation,
      .num_steps = core_.num_steps(),
      .step_sizes = core_.step_sizes(),
      .last_step_time = core_.last_step_time(),
  };
  intake_.note_step(stats);
  const std::lock_guard lock(mutex_);
  stats_ = stats;
}

}  // namespace millrace
