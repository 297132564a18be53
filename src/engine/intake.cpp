#include "engine/intake.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace millrace {

Result<void> check_request(
    const EngineRequest& request, const SchedulerConfig& config, const EngineLimits& limits
) {
  const SamplingLimits sampling{
      .vocab_size = limits.vocab_size, .n_max = limits.n_max, .logprobs_max = limits.logprobs_max};
  if (auto valid = validate(request.sampling, sampling); !valid) return valid;
  if (auto runnable = check_runnable(config, request.prompt.size()); !runnable) return runnable;
  for (size_t i = 0; i < request.prompt.size(); ++i) {
    const TokenId id = request.prompt[i];
    if (id >= 0 && id < limits.vocab_size) continue;
    return invalid_argument(
        fmt::format("prompt token {} is {}, not between 0 and {}", i, id, limits.vocab_size - 1),
        "prompt"
    );
  }
  return {};
}

Intake::Intake(SchedulerConfig config, EngineLimits limits, uint64_t seed)
    : config_(std::move(config)),
      limits_(limits),
      seed_(seed),
      commands_(5 * static_cast<size_t>(limits.max_num_live_seqs) + 2) {}

Result<RequestId> Intake::submit(EngineRequest request, std::shared_ptr<EventSink> sink) {
  CHECK(sink != nullptr, "events need a place to go");
  if (auto checked = check_request(request, config_, limits_); !checked) return checked.error();
  const int32_t n = request.sampling.n;

  std::unique_lock lock(mutex_);
  if (shutdown_) return Error{ErrorCode::kCancelled, "the engine is shutting down", ""};
  if (n > limits_.max_num_live_seqs - num_live_seqs_) {
    return Error{
        ErrorCode::kResourceExhausted,
        fmt::format(
            "{} sequences run or wait, and at most {} may",
            num_live_seqs_,
            limits_.max_num_live_seqs
        ),
        "",
    };
  }
  const RequestId id{num_accepted_++};
  const uint64_t seed = request.sampling.seed.value_or(random_bits(seed_, id.value));
  live_[id].choice_cancelled.assign(static_cast<size_t>(n), false);
  const TimePoint now = Clock::now();
  if (num_live_seqs_ == 0) last_progress_ = now;
  num_live_seqs_ += n;
  send(Submission{
      .request =
          {.id = id,
           .prompt = std::move(request.prompt),
           .sampling = std::move(request.sampling),
           .seed = seed,
           .priority = request.priority,
           .arrival = now,
           .deadline = request.deadline,
           .prefix_root = prefix_root(id, request.cache_salt),
           .tenant = {}},
      .sink = std::move(sink),
  });
  lock.unlock();
  commands_.wake_taker();
  return id;
}

void Intake::cancel(RequestId id) {
  std::unique_lock lock(mutex_);
  const auto found = live_.find(id);
  if (found == live_.end() || std::exchange(found->second.is_cancelled, true)) return;
  send(Cancellation{.request = id});
  lock.unlock();
  commands_.wake_taker();
}

void Intake::cancel(RequestId id, int32_t choice) {
  std::unique_lock lock(mutex_);
  const auto found = live_.find(id);
  if (found == live_.end() || found->second.is_cancelled) return;
  std::vector<bool>& cancelled = found->second.choice_cancelled;
  CHECK(choice >= 0 && static_cast<size_t>(choice) < cancelled.size(), "a choice that never was");
  if (cancelled[static_cast<size_t>(choice)]) return;
  cancelled[static_cast<size_t>(choice)] = true;
  send(Cancellation{id, choice});
  lock.unlock();
  commands_.wake_taker();
}

void Intake::reset_prefix_cache() {
  const std::lock_guard lock(mutex_);
  ++prefix_epoch_;
}

// What a reset forgets is not erased: nobody finds it any more, so it is the next to be given away.
Hash128 Intake::prefix_root(RequestId id, const std::string& cache_salt) const {
  struct Namespace {
    uint64_t epoch = 0;
    uint64_t request = 0;  // 1 + id where nothing is shared beyond a request; 0 else
  };
  const Namespace space{
      .epoch = prefix_epoch_, .request = config_.enable_prefix_caching ? 0 : id.value + 1};
  std::string bytes(reinterpret_cast<const char*>(&space), sizeof(space));
  bytes += cache_salt;
  return siphash128(config_.prefix_hash_key, std::as_bytes(std::span(bytes)));
}

void Intake::shut_down(ShutdownMode mode) {
  std::unique_lock lock(mutex_);
  const bool is_news = !shutdown_ || (*shutdown_ != mode && mode == ShutdownMode::kAbort);
  if (!is_news) return;
  shutdown_ = mode;
  send(mode);
  lock.unlock();
  commands_.wake_taker();
}

void Intake::fill(EngineStats& stats) const {
  const std::lock_guard lock(mutex_);
  stats.num_live_seqs = num_live_seqs_;
  stats.working_since = std::nullopt;
  if (num_live_seqs_ > 0) stats.working_since = std::min(last_progress_, Clock::now());
}

void Intake::account(const FinishedEvent& finished) {
  const std::lock_guard lock(mutex_);
  --num_live_seqs_;
  if (finished.num_choices_unfinished == 0) {
    live_.erase(finished.request);
  } else {
    live_[finished.request].choice_cancelled[static_cast<size_t>(finished.choice)] = true;
  }
}

void Intake::note_progress(TimePoint when) {
  const std::lock_guard lock(mutex_);
  last_progress_ = when;
}

// A shutdown of a second mode may come when the engine thread has ended: nobody takes it, or has
// to.
void Intake::send(Command command) {
  CHECK(
      commands_.try_push_silently(std::move(command)) == PushResult::kPushed,
      "the inbox is sized for all"
  );
}

}  // namespace millrace
