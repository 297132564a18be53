#include "engine/intake.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/error_reason.h"
#include "base/rng.h"

namespace millrace {
namespace {

// What is asked for must be possible on an empty machine; the error names what asks for the most.
Result<void> check_result_bytes(const EngineRequest& request, const EngineLimits& limits) {
  const ResultBytes bytes = result_bytes_max(request, limits);
  const int64_t total = bytes.total(request.sampling.n);
  const int64_t most = limits.admission.max_result_bytes;
  if (total <= most) return {};
  const bool is_for_prompt = bytes.of_prompt > total - bytes.of_prompt;
  const char* field = is_for_prompt               ? "prompt_logprobs"
                      : request.sampling.logprobs ? "logprobs"
                      : request.sampling.n > 1    ? "n"
                                                  : "max_tokens";
  return invalid_argument(
      fmt::format(
          "{} asks for too much: tokens and logprobs could take {} bytes, and at most {} may",
          field,
          total,
          most
      ),
      field
  );
}

}  // namespace

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
  return check_result_bytes(request, limits);
}

Result<void> check_admission(const AdmissionLimits& limits) {
  const std::pair<const char*, int64_t> values[] = {
      {"max_num_queued_reqs", limits.max_num_queued_reqs.value_or(1)},
      {"max_num_queued_tokens", limits.max_num_queued_tokens.value_or(1)},
      {"max_result_bytes", limits.max_result_bytes},
  };
  for (const auto& [field, value] : values) {
    if (value >= 1) continue;
    return invalid_argument(fmt::format("{} must be at least 1, got {}", field, value), field);
  }
  return {};
}

Intake::Intake(SchedulerConfig config, EngineLimits limits, uint64_t seed)
    : config_(std::move(config)),
      limits_(limits),
      seed_(seed),
      commands_(5 * static_cast<size_t>(limits.max_num_live_seqs) + 2),
      admission_(limits_) {}

// Where memory runs out, at whatever place, nothing has happened and nothing is kept.
Result<RequestId> Intake::submit(EngineRequest request, std::shared_ptr<EventSink> sink) {
  CHECK(sink != nullptr, "events need a place to go");
  try {
    if (auto checked = check_request(request, config_, limits_); !checked) return checked.error();
    std::unique_lock lock(mutex_);
    Result<RequestId> accepted = accept(request, std::move(sink));
    lock.unlock();
    if (accepted) commands_.wake_taker();
    return accepted;
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(mutex_);
    ++num_refused_[index_of(RefusalReason::kMemory)];
    return Error{ErrorCode::kResourceExhausted, "out of memory"};  // short enough to need none
  }
}

// What can fail comes before what is changed.
Result<RequestId> Intake::accept(EngineRequest& request, std::shared_ptr<EventSink> sink) {
  if (shutdown_) return Error{ErrorCode::kCancelled, "the engine is shutting down", ""};
  const Claim claim{
      .num_seqs = request.sampling.n,
      .num_prompt_tokens = static_cast<int64_t>(request.prompt.size()),
      .result_bytes = result_bytes_max(request, limits_),
  };
  const TenantId tenant = tenants_.id_of(request.tenant);
  const TimePoint now = Clock::now();
  if (auto refusal = find_refusal(request, claim, tenant, now)) return *std::move(refusal);

  const RequestId id{num_accepted_};
  const Arrivals arrival = admission_.arrival_of(claim);
  LiveRequest live{
      .choice_cancelled = std::vector<bool>(static_cast<size_t>(claim.num_seqs)),
      .tenant = tenant,
      .result_bytes = claim.result_bytes,
  };
  const Hash128 root = prefix_root(id, request.cache_salt);
  const uint64_t seed = request.sampling.seed.value_or(random_bits(seed_, id.value));
  const auto position = live_.emplace(id, std::move(live)).first;
  try {
    send(Submission{
        .request =
            {.id = id,
             .prompt = std::move(request.prompt),
             .sampling = std::move(request.sampling),
             .seed = seed,
             .priority = request.priority,
             .arrival = request.arrival.value_or(now),
             .deadline = request.deadline,
             .prefix_root = root,
             .tenant = tenant},
        .sink = std::move(sink),
        .arrival = arrival,
    });
  } catch (...) {
    live_.erase(position);
    throw;
  }
  if (admission_.num_live_seqs() == 0) {
    last_progress_ = now;
    throughput_.resume(now);
  }
  ++num_accepted_;
  admission_.take(claim, arrival);
  tenants_.add(tenant, claim.num_seqs);
  return id;
}

// A deadline that has passed is refused; one that seems too near is not: whoever waits before may
// be cancelled, and how fast the engine will be is a guess.
std::optional<Error> Intake::find_refusal(
    const EngineRequest& request, const Claim& claim, TenantId tenant, TimePoint now
) {
  if (request.deadline && *request.deadline <= now) {
    ++num_refused_[index_of(RefusalReason::kDeadline)];
    return deadline_passed();
  }
  std::optional<Admission::Refused> refused = admission_.check(claim);
  if (!refused) return std::nullopt;
  ++num_refused_[index_of(refused->reason)];
  const double speed = throughput_.rates(now).computed_tokens_per_second;
  return Error{
      .code = ErrorCode::kResourceExhausted,
      .message = std::move(refused->message),
      .reason = tenants_.holds_more_than_its_share(tenant) ? error_reason::kRateLimit : "",
      .retry_after = admission_.retry_after(speed),
  };
}

std::optional<Intake::Command> Intake::taken(std::optional<Command> command) {
  if (!command) return command;
  if (const auto* submission = std::get_if<Submission>(&*command)) taken_ += submission->arrival;
  return command;
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
  const TimePoint now = Clock::now();
  const ThroughputMeter::Rates rates = throughput_.rates(now);
  stats.num_live_seqs = admission_.num_live_seqs();
  stats.num_queued_seqs = admission_.num_queued_seqs();
  stats.num_refused = num_refused_;
  stats.computed_tokens_per_second = rates.computed_tokens_per_second;
  stats.output_tokens_per_second = rates.output_tokens_per_second;
  stats.working_since = std::nullopt;
  if (stats.num_live_seqs > 0) stats.working_since = std::min(last_progress_, now);
}

void Intake::account(const FinishedEvent& finished) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(finished.request);
  CHECK(found != live_.end(), "an end of a request that is over");
  LiveRequest& live = found->second;
  const bool is_last = finished.num_choices_unfinished == 0;
  admission_.release(live.result_bytes, is_last);
  tenants_.remove(live.tenant, 1);
  if (finished.timings.first_scheduled) {
    admission_.note_output(finished.timings.num_output_tokens);
  }
  if (admission_.num_live_seqs() == 0) throughput_.pause(Clock::now());
  if (is_last) {
    live_.erase(found);
  } else {
    live.choice_cancelled[static_cast<size_t>(finished.choice)] = true;
  }
}

void Intake::note_step(const EngineStats& stats) {
  const std::lock_guard lock(mutex_);
  last_progress_ = Clock::now();
  throughput_.note(
      last_progress_,
      {.num_computed_tokens = stats.num_tokens_computed,
       .num_output_tokens = stats.num_output_tokens}
  );
  admission_.update(
      {.num_running = stats.num_running,
       .num_waiting = stats.num_waiting,
       .num_waiting_tokens = stats.num_waiting_tokens},
      std::exchange(taken_, {})
  );
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
