#include "engine/null_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>

#include "base/check.h"
#include "base/math.h"
#include "base/prefetch.h"
#include "base/rng.h"
#include "engine/engine_thread.h"

namespace millrace {
namespace {

// So many positions of prompt logprobs go into one event: what a step of a real engine gives.
constexpr int32_t kPromptLogprobsOfEvent = 64;

// The choice itself, its request, and what its sink asks for.
constexpr size_t kNumPrefetchSteps = 2 + EventSink::kNumPrefetchSteps;

// No token is due later than this after the first: the clock's range is far, and nobody waits.
constexpr double kLatestDueNs = 1e18;

SchedulerConfig scheduler_config_of(const NullEngineOptions& options) {
  const int64_t num_blocks_each =
      div_ceil(std::max(1, options.max_model_len), std::max(1, options.block_size));
  const int64_t num_blocks_most =
      std::numeric_limits<int32_t>::max() / std::max(1, options.block_size);
  return {
      .policy = options.policy,
      .max_num_batched_tokens = options.max_num_seqs,
      .max_num_seqs = options.max_num_seqs,
      .max_logit_rows = options.max_num_seqs,
      .max_model_len = options.max_model_len,
      .block_size = options.block_size,
      .num_blocks = static_cast<int32_t>(
          std::min(num_blocks_most, num_blocks_each * std::max(1, options.max_num_seqs))
      ),
  };
}

EngineLimits limits_of(const NullEngineOptions& options, const SchedulerConfig& config) {
  return {
      .vocab_size = options.vocab_size,
      .num_sequence_tokens_max = num_sequence_tokens_max(config),
      .n_max = options.n_max,
      .logprobs_max = options.logprobs_max,
      .max_num_seqs = options.max_num_seqs,
      .max_num_live_seqs = options.max_num_live_seqs,
      .block_size = config.block_size,
      .num_blocks = config.num_blocks,
      .policy = options.policy,
      .admission = options.admission,
  };
}

Error refuse(std::string_view field, std::string_view expected) {
  return invalid_argument(fmt::format("{} {}", field, expected), std::string(field));
}

Result<void> check_ids(const NullEngineOptions& options) {
  if (options.vocab_size < 1 || options.vocab_size > std::numeric_limits<TokenId>::max()) {
    return refuse("vocab_size", fmt::format("must be at least 1, got {}", options.vocab_size));
  }
  if (options.logprobs_max < 0) return refuse("logprobs_max", "must not be negative");
  std::vector<TokenId> ids = options.plain_ids;
  std::sort(ids.begin(), ids.end());
  if (ids.size() <= static_cast<size_t>(options.logprobs_max)) {
    return refuse("plain_ids", "must be more than logprobs_max");
  }
  if (ids.front() < 0 || ids.back() >= options.vocab_size) {
    return refuse("plain_ids", fmt::format("must be below {}", options.vocab_size));
  }
  if (std::adjacent_find(ids.begin(), ids.end()) != ids.end()) {
    return refuse("plain_ids", "must be distinct");
  }
  return {};
}

Result<void> check_pace(const NullEngineOptions& options) {
  // Written so that a NaN is refused.
  if (!(options.tokens_per_second >= 1e-3 && options.tokens_per_second <= 1e9)) {
    return refuse("tokens_per_second", "must be between 0.001 and 1e9");
  }
  if (options.time_to_first_token < Duration{0} ||
      options.time_to_first_token > std::chrono::hours(24)) {
    return refuse("time_to_first_token", "must be between 0 and a day");
  }
  const NullEngineFaults& faults = options.faults;
  if (faults.num_tokens_before_failure < 0) {
    return refuse("num_tokens_before_failure", "must not be negative");
  }
  if (faults.stall_time < Duration{0}) return refuse("stall_time", "must not be negative");
  return {};
}

Result<void> check_options(const NullEngineOptions& options) {
  if (auto checked = check_ids(options); !checked) return checked;
  if (auto checked = check_pace(options); !checked) return checked;
  if (auto checked = validate(scheduler_config_of(options)); !checked) return checked;
  if (options.n_max < 1 || options.n_max > options.max_num_live_seqs) {
    return refuse("n_max", "must be between 1 and max_num_live_seqs");
  }
  return check_admission(options.admission);
}

int64_t num_kv_tokens_of(const SequenceTimings& timings) {
  return timings.num_prompt_tokens + std::max(0, timings.num_output_tokens - 1);
}

Duration rest_time_of(double tokens_per_second) {
  constexpr std::chrono::microseconds kRestTimeMax{1000};
  const std::chrono::duration<double> share(1.0 / tokens_per_second / 16.0);
  return std::min<Duration>(kRestTimeMax, std::chrono::duration_cast<Duration>(share));
}

}  // namespace

Result<std::unique_ptr<NullEngine>> NullEngine::start(NullEngineOptions options) {
  if (auto checked = check_options(options); !checked) return checked.error();
  const SchedulerConfig config = scheduler_config_of(options);
  return std::unique_ptr<NullEngine>(new NullEngine(std::move(options), config));
}

NullEngine::NullEngine(NullEngineOptions options, const SchedulerConfig& config)
    : options_(std::move(options)),
      rest_time_(rest_time_of(options_.tokens_per_second)),
      tokens_(options_.plain_ids),
      intake_(config, limits_of(options_, config), options_.seed),
      thread_([this] { run(); }) {}

NullEngine::~NullEngine() {
  shutdown(ShutdownMode::kAbort);
}

EngineStats NullEngine::stats() const {
  EngineStats stats;
  {
    const std::lock_guard lock(mutex_);
    stats = stats_;
  }
  intake_.fill(stats);
  return stats;
}

void NullEngine::shutdown(ShutdownMode mode) {
  intake_.shut_down(mode);
  const std::lock_guard lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

void NullEngine::run() {
  become_engine_thread();
  publish_stats();
  for (;;) {
    receive();
    if (is_stopping_ && requests_.empty()) break;
    step(Clock::now());
    if (options_.on_step_end) options_.on_step_end();
  }
  if (options_.on_step_end) options_.on_step_end();  // for what was cancelled last
}

// Takes all that has been sent; with nothing to do, sleeps until something is sent or due.
void NullEngine::receive() {
  for (auto command = next_command(); command; command = intake_.try_pop()) {
    apply(std::move(*command));
  }
}

std::optional<Intake::Command> NullEngine::next_command() {
  const std::optional<TimePoint> wake = next_wake();
  if (!wake) return is_stopping_ ? intake_.try_pop() : intake_.pop();
  if (*wake <= Clock::now()) return intake_.try_pop();
  intake_.note_progress(*wake);
  return intake_.pop_until(*wake);
}

std::optional<TimePoint> NullEngine::next_wake() {
  while (!running_.is_empty() && is_stale(running_.first())) running_.pop();
  std::optional<TimePoint> wake;
  if (!running_.is_empty()) wake = std::max(running_.first().when, last_step_ + rest_time_);
  if (!deadlines_.empty()) {
    wake = std::min(wake.value_or(TimePoint::max()), deadlines_.begin()->first);
  }
  return wake;
}

void NullEngine::apply(Intake::Command command) {
  if (auto* submission = std::get_if<Intake::Submission>(&command)) {
    add(std::move(*submission));
  } else if (const auto* cancellation = std::get_if<Intake::Cancellation>(&command)) {
    const auto found = requests_.find(cancellation->request);
    if (found == requests_.end()) return;
    LiveRequest& request = found->second;
    if (!cancellation->choice) return cancel(request, FinishReason::kCancelled, Clock::now());
    const auto slot = request.choices[static_cast<size_t>(*cancellation->choice)];
    if (slot) finish(*slot, FinishReason::kCancelled, std::nullopt, Clock::now());
  } else {
    is_stopping_ = true;
    if (std::get<ShutdownMode>(command) == ShutdownMode::kAbort) cancel_all();
  }
}

void NullEngine::add(Intake::Submission submission) {
  const RequestId id = submission.request.id;
  LiveRequest& live = requests_[id];
  live.request = std::move(submission.request);
  live.sink = std::move(submission.sink);
  const Request& request = live.request;
  const SharedList<TokenId>& stop_ids = request.sampling.stop_token_ids;
  live.stop_ids.assign(stop_ids.begin(), stop_ids.end());
  std::sort(live.stop_ids.begin(), live.stop_ids.end());
  live.num_unfinished = request.sampling.n;
  live.fails = options_.faults.failing_first_token == request.prompt.front();
  if (request.deadline) deadlines_.emplace(*request.deadline, id);

  const auto num_prompt_tokens = static_cast<int32_t>(request.prompt.size());
  const bool is_by_priority = options_.policy == SchedulingPolicy::kPriority;
  for (int32_t choice = 0; choice < request.sampling.n; ++choice) {
    if (free_slots_.empty()) {
      free_slots_.push_back(static_cast<SlotIndex>(slots_.size()));
      slots_.emplace_back();
    }
    const SlotIndex index = free_slots_.back();
    free_slots_.pop_back();
    Slot& slot = slots_[index];
    slot.request = &live;
    slot.sink = live.sink.get();
    slot.precedence = {
        .priority = is_by_priority ? request.priority : 0,
        .arrival = num_added_,
        .choice = choice,
    };
    slot.num_tokens_max =
        std::min(request.sampling.max_tokens, limits().num_sequence_tokens_max - num_prompt_tokens);
    slot.key = random_bits(request.seed, static_cast<uint64_t>(choice));
    slot.is_running = false;
    slot.timings = {.arrival = request.arrival, .num_prompt_tokens = num_prompt_tokens};
    live.choices.emplace_back(index);
    waiting_.emplace(slot.precedence, index);
    counts_.num_waiting_tokens += num_prompt_tokens;
  }
  ++num_added_;
}

void NullEngine::cancel_all() {
  const TimePoint now = Clock::now();
  while (!requests_.empty()) cancel(requests_.begin()->second, FinishReason::kCancelled, now);
}

// `request` is gone afterwards.
void NullEngine::cancel(LiveRequest& request, FinishReason reason, TimePoint now) {
  const std::vector<std::optional<SlotIndex>> choices = request.choices;
  for (const std::optional<SlotIndex> slot : choices) {
    if (slot) finish(*slot, reason, std::nullopt, now);
  }
}

void NullEngine::step(TimePoint now) {
  expire(now);
  const int64_t num_tokens_before = counts_.num_tokens_computed;
  emit_due(now);
  admit_waiting(now);
  const int64_t num_tokens = counts_.num_tokens_computed - num_tokens_before;
  const bool is_step = num_tokens > 0;
  if (is_step) {
    last_step_ = now;
    counts_.step_sizes.add(num_tokens);
    ++counts_.num_steps;
    counts_.last_step_time = Clock::now() - now;
  }
  publish_stats();
  if (is_step) stall_if_told();
}

void NullEngine::expire(TimePoint now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto found = requests_.find(deadlines_.begin()->second);
    CHECK(found != requests_.end(), "a deadline of a request that is over");
    cancel(found->second, FinishReason::kDeadline, now);
  }
}

// One token of each choice that is due, however late it is.
void NullEngine::emit_due(TimePoint now) {
  due_now_.clear();
  while (!running_.is_empty() && running_.first().when <= now) {
    due_now_.push_back(running_.first());
    running_.pop();
  }
  use_each_prefetched(
      std::span(due_now_),
      kNumPrefetchSteps,
      [&](const Due& due, size_t step) { prefetch(due, step); },
      [&](const Due& due) {
        if (!is_stale(due)) emit_next(due.slot, now);
      }
  );
}

void NullEngine::prefetch(const Due& due, size_t step) const {
  const Slot& slot = slots_[due.slot];
  if (step == 0) return prefetch_object(slot);
  if (is_stale(due)) return;
  if (step == 1) {
    prefetch_object(*slot.request);
    millrace::prefetch(slot.sink, kCacheLineBytes);
  } else {
    slot.sink->prefetch(step - 2);
  }
}

void NullEngine::admit_waiting(TimePoint now) {
  while (!waiting_.empty() && counts_.num_running < options_.max_num_seqs) {
    const SlotIndex index = waiting_.begin()->second;
    waiting_.erase(waiting_.begin());
    Slot& slot = slots_[index];
    counts_.num_waiting_tokens -= slot.timings.num_prompt_tokens;
    slot.is_running = true;
    slot.timings.first_scheduled = now;
    slot.first_due = now + options_.time_to_first_token;
    ++counts_.num_running;
    num_kv_tokens_ += num_kv_tokens_of(slot.timings);
    running_.push({.when = slot.first_due, .slot = index, .turn = slot.turn});
  }
}

void NullEngine::emit_next(SlotIndex index, TimePoint now) {
  Slot& slot = slots_[index];
  const LiveRequest& live = *slot.request;
  const SamplingParams& sampling = live.request.sampling;
  SequenceTimings& timings = slot.timings;
  const int32_t position = timings.num_output_tokens;
  const bool may_stop = position >= sampling.min_tokens;
  const std::optional<TokenId> id = tokens_.draw(
      slot.key,
      static_cast<uint64_t>(position),
      may_stop ? std::span<const TokenId>{} : std::span<const TokenId>(live.stop_ids)
  );
  if (auto failure = find_failure(slot, id)) {
    return finish(index, FinishReason::kError, std::move(failure), now);
  }
  if (position == 0) {
    timings.first_token = now;
    counts_.num_tokens_computed += timings.num_prompt_tokens;
    counts_.num_prompt_tokens += timings.num_prompt_tokens;
    if (slot.precedence.choice == 0 && sampling.prompt_logprobs) emit_prompt_logprobs(live);
  } else {
    ++counts_.num_tokens_computed;
    ++num_kv_tokens_;
  }
  ++counts_.num_output_tokens;
  timings.last_token = now;
  timings.num_output_tokens = position + 1;
  const bool is_stop =
      may_stop && std::binary_search(live.stop_ids.begin(), live.stop_ids.end(), *id);
  TokenEvent event{
      .request = live.request.id,
      .choice = slot.precedence.choice,
      .token = {.id = *id, .logprobs = {}},
      .is_stop_token = is_stop,
      .num_cached_tokens = timings.num_cached_tokens,
      .when = now,
  };
  if (sampling.logprobs) {
    event.token.logprobs =
        tokens_.logprobs(*id, *sampling.logprobs, slot.key, static_cast<uint64_t>(position));
  }
  slot.sink->on_event(std::move(event));

  if (is_stop) return finish(index, FinishReason::kStop, std::nullopt, now);
  if (position + 1 == slot.num_tokens_max) {
    return finish(index, FinishReason::kLength, std::nullopt, now);
  }
  running_.push({.when = due_of(slot, position + 1), .slot = index, .turn = slot.turn});
}

std::optional<Error> NullEngine::find_failure(const Slot& slot, std::optional<TokenId> next) const {
  if (slot.request->fails &&
      slot.timings.num_output_tokens == options_.faults.num_tokens_before_failure) {
    return Error{ErrorCode::kInternal, "the engine was told to fail here"};
  }
  if (!next) return invalid_argument("stop_token_ids and min_tokens leave no token");
  return std::nullopt;
}

void NullEngine::emit_prompt_logprobs(const LiveRequest& live) {
  const Request& request = live.request;
  const auto num_tokens = static_cast<int32_t>(request.prompt.size());
  for (int32_t first = 1; first < num_tokens; first += kPromptLogprobsOfEvent) {
    PromptLogprobsEvent event{.request = request.id, .first_position = first};
    const int32_t end = std::min(num_tokens, first + kPromptLogprobsOfEvent);
    for (int32_t position = first; position < end; ++position) {
      event.logprobs.push_back(tokens_.logprobs(
          request.prompt[static_cast<size_t>(position)],
          *request.sampling.prompt_logprobs,
          request.seed,
          static_cast<uint64_t>(position)
      ));
    }
    live.sink->on_event(std::move(event));
  }
}

// With the last choice the request goes, too.
void NullEngine::finish(
    SlotIndex index, FinishReason reason, std::optional<Error> error, TimePoint now
) {
  Slot& slot = slots_[index];
  LiveRequest& live = *slot.request;
  const RequestId id = live.request.id;
  const int32_t choice = slot.precedence.choice;
  FinishedEvent event{
      .request = id,
      .choice = choice,
      .num_choices_unfinished = --live.num_unfinished,
      .reason = reason,
      .stop_token = std::nullopt,
      .error = std::move(error),
      .timings = slot.timings,
      .when = now,
  };
  if (reason == FinishReason::kStop) {
    event.stop_token =
        tokens_.draw(slot.key, static_cast<uint64_t>(slot.timings.num_output_tokens - 1), {});
  }

  if (slot.is_running) {
    --counts_.num_running;
    num_kv_tokens_ -= num_kv_tokens_of(slot.timings);
  } else {
    waiting_.erase({slot.precedence, index});
    counts_.num_waiting_tokens -= slot.timings.num_prompt_tokens;
  }
  ++slot.turn;  // what is still in running_ is stale now
  slot.request = nullptr;
  free_slots_.push_back(index);
  // What was cancelled long before it was due must not fill the heap.
  if (running_.size() > 2 * static_cast<size_t>(counts_.num_running) + 64) {
    running_.erase_if([this](const Due& due) { return is_stale(due); });
  }

  live.choices[static_cast<size_t>(choice)] = std::nullopt;
  const std::shared_ptr<EventSink> sink = live.sink;
  if (live.num_unfinished == 0) {
    if (live.request.deadline) deadlines_.erase({*live.request.deadline, id});
    requests_.erase(id);
  }
  intake_.account(event);
  sink->on_event(std::move(event));
}

void NullEngine::publish_stats() {
  counts_.num_waiting = static_cast<int32_t>(waiting_.size());
  counts_.num_blocks = limits().num_blocks;
  const int64_t num_blocks_used = div_ceil(num_kv_tokens_, int64_t{limits().block_size});
  counts_.num_blocks_free =
      static_cast<int32_t>(std::max(int64_t{0}, counts_.num_blocks - num_blocks_used));
  intake_.note_step(counts_);
  const std::lock_guard lock(mutex_);
  stats_ = counts_;
}

void NullEngine::stall_if_told() {
  const NullEngineFaults& faults = options_.faults;
  if (faults.num_steps_before_stall != counts_.num_steps) return;
  std::this_thread::sleep_for(faults.stall_time);
}

// From the first due time, so that lateness does not add up.
TimePoint NullEngine::due_of(const Slot& slot, int32_t position) const {
  const double offset_ns = 1e9 / options_.tokens_per_second * position;
  return slot.first_due +
         std::chrono::nanoseconds(static_cast<int64_t>(std::min(offset_ns, kLatestDueNs)));
}

}  // namespace millrace
