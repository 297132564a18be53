#include "bench/in_process_load.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/clock.h"

namespace millrace::bench {
namespace {

struct PreparedRequest {
  std::vector<TokenId> prompt;
  int64_t num_output_tokens = 0;
};

// To another zero of the clock.
void shift(RequestRecord& record, Nanos by) {
  for (Nanos* time : {&record.scheduled, &record.admitted, &record.sent, &record.ended}) {
    *time += by;
  }
  for (std::optional<Nanos>* time :
       {&record.first_chunk,
        &record.first_text,
        &record.first_token,
        &record.first_answer,
        &record.last_token,
        &record.last_chunk}) {
    if (*time) **time += by;
  }
  for (Chunk& chunk : record.chunks) chunk = Chunk::make(chunk.at() + by, chunk.num_tokens);
}

// Sends the next prompt of a slot when the one before is done: on the engine's thread, so that the
// slot is never empty for longer than a step.
class ClosedLoop {
 public:
  ClosedLoop(Engine& engine, std::vector<PreparedRequest> requests, int64_t num_warmups)
      : engine_(engine), requests_(std::move(requests)), num_warmups_(num_warmups) {}

  LoadResult run(int64_t num_slots, const std::stop_token& stop);

 private:
  // The events of one request. The engine shares it until the request is done.
  struct Sink final : EventSink {
    Sink(ClosedLoop& loop_, RequestRecord record_) : loop(loop_), record(std::move(record_)) {}
    void on_event(EngineEvent event) override { loop.take(*this, event); }

    ClosedLoop& loop;
    RequestRecord record;
  };

  std::optional<std::pair<EngineRequest, RequestRecord>> take_next(int32_t slot);
  void send_next(int32_t slot);
  void take(Sink& sink, const EngineEvent& event);
  void take_token(RequestRecord& record, const TokenEvent& event) const;
  void finish(RequestRecord record);
  void keep(RequestRecord record);
  void release();
  Nanos since_start(TimePoint when) const {
    return std::chrono::duration_cast<Nanos>(when - start_);
  }
  // Runs requests [from, to) and returns when all are done.
  void run_phase(size_t from, size_t to, int64_t num_slots, Phase phase);

  Engine& engine_;
  const std::vector<PreparedRequest> requests_;
  const int64_t num_warmups_;
  TimePoint start_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable done_;
  size_t next_ = 0, end_ = 0;
  Phase phase_ = Phase::kWarmup;
  int64_t num_live_ = 0;
  bool is_stopped_ = false;
  std::vector<RequestRecord> records_;
};

// none: the phase has no more.
std::optional<std::pair<EngineRequest, RequestRecord>> ClosedLoop::take_next(int32_t slot) {
  const std::lock_guard lock(mutex_);
  if (next_ >= end_ || is_stopped_) return std::nullopt;
  const PreparedRequest& prepared = requests_[next_];
  EngineRequest request;
  request.prompt = prepared.prompt;
  request.sampling.temperature = 0.0F;
  request.sampling.max_tokens = static_cast<int32_t>(prepared.num_output_tokens);
  request.sampling.min_tokens = request.sampling.max_tokens;
  request.sampling.ignore_eos = true;
  RequestRecord record;
  record.index = static_cast<int64_t>(next_) - num_warmups_;
  record.session = record.index;
  record.phase = phase_;
  record.slot = slot;
  record.num_prompt_tokens_planned = static_cast<int64_t>(prepared.prompt.size());
  record.num_prompt_tokens = record.num_prompt_tokens_planned;
  record.num_output_tokens_planned = prepared.num_output_tokens;
  record.output_source = TokenSource::kTokenIds;
  record.chunks.reserve(static_cast<size_t>(prepared.num_output_tokens));
  ++next_;
  ++num_live_;
  return std::pair(std::move(request), std::move(record));
}

// The next request that the engine takes; those that it refuses are over at once.
void ClosedLoop::send_next(int32_t slot) {
  while (auto next = take_next(slot)) {
    auto& [request, record] = *next;
    record.scheduled = record.admitted = record.sent = since_start(Clock::now());
    auto sink = std::make_shared<Sink>(*this, std::move(record));
    const Result<RequestId> accepted = engine_.submit(std::move(request), sink);
    if (accepted) return;
    sink->record.outcome = Outcome::kFailed;
    sink->record.failure = FailureKind::kServerError;
    sink->record.error = accepted.error().message;
    sink->record.ended = since_start(Clock::now());
    keep(std::move(sink->record));
    release();
  }
}

void ClosedLoop::keep(RequestRecord record) {
  const std::lock_guard lock(mutex_);
  records_.push_back(std::move(record));
}

void ClosedLoop::release() {
  const std::lock_guard lock(mutex_);
  if (--num_live_ == 0) done_.notify_all();
}

void ClosedLoop::take_token(RequestRecord& record, const TokenEvent& event) const {
  const Nanos at = since_start(event.when);
  record.chunks.push_back(Chunk::make(at, 1));
  if (!record.first_token) {
    record.first_chunk = record.first_text = record.first_token = record.first_answer = at;
  }
  record.last_token = record.last_chunk = at;
  ++record.num_output_tokens;
}

void ClosedLoop::take(Sink& sink, const EngineEvent& event) {
  RequestRecord& record = sink.record;
  if (const auto* token = std::get_if<TokenEvent>(&event)) {
    take_token(record, *token);
    return;
  }
  const auto* finished = std::get_if<FinishedEvent>(&event);
  if (finished == nullptr) return;
  record.ended = since_start(Clock::now());
  record.num_cached_tokens = finished->timings.num_cached_tokens;
  const bool is_whole =
      finished->reason == FinishReason::kLength || finished->reason == FinishReason::kStop;
  record.outcome = is_whole ? Outcome::kCompleted : Outcome::kFailed;
  if (!is_whole) {
    record.failure = FailureKind::kServerError;
    record.error = finished->error ? finished->error->message : "the engine ended it";
  }
  finish(std::move(record));
}

// The next one is under way before this one is let go, so that the phase is not over between them.
void ClosedLoop::finish(RequestRecord record) {
  const int32_t slot = record.slot;
  keep(std::move(record));
  send_next(slot);
  release();
}

void ClosedLoop::run_phase(size_t from, size_t to, int64_t num_slots, Phase phase) {
  {
    const std::lock_guard lock(mutex_);
    next_ = from;
    end_ = to;
    phase_ = phase;
    ++num_live_;  // this function's own, so that nothing is done before all slots have begun
  }
  for (int32_t slot = 0; slot < num_slots; ++slot) send_next(slot);
  std::unique_lock lock(mutex_);
  --num_live_;
  done_.wait(lock, [this] { return num_live_ == 0; });
}

LoadResult ClosedLoop::run(int64_t num_slots, const std::stop_token& stop) {
  const std::stop_callback on_stop(stop, [this] {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  });
  const auto num_warmups = static_cast<size_t>(num_warmups_);
  start_ = Clock::now();
  run_phase(0, num_warmups, num_slots, Phase::kWarmup);
  LoadResult result;
  const Nanos offset = since_start(Clock::now());
  result.started_unix_ns =
      std::chrono::duration_cast<Nanos>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  start_ += std::chrono::duration_cast<Duration>(offset);
  for (RequestRecord& record : records_) shift(record, -offset);
  run_phase(num_warmups, requests_.size(), num_slots, Phase::kMeasured);
  std::ranges::sort(records_, {}, &RequestRecord::index);
  result.requests = std::move(records_);
  for (const RequestRecord& record : result.requests) {
    if (record.phase == Phase::kMeasured) result.finished = std::max(result.finished, record.ended);
  }
  if (stop.stop_requested()) result.stop_reason = StopReason::kInterrupted;
  result.client.num_threads = 0;  // there is no client
  return result;
}

Result<std::vector<TokenId>> ids_of(const PlannedPrompt& prompt, const TokenCodec& codec) {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) return *ids;
  if (const auto* text = std::get_if<std::string>(&prompt)) return codec.encode(*text);
  return invalid_argument("a conversation cannot be run in process");
}

}  // namespace

Result<LoadResult> run_in_process_load(
    Engine& engine,
    const Dataset& dataset,
    const TokenCodec& codec,
    const LoadOptions& options,
    std::stop_token stop
) {
  CHECK(options.num_sessions && options.load.max_concurrency, "a closed loop of known size");
  const int64_t num_requests = options.num_warmups + *options.num_sessions;
  std::vector<PreparedRequest> requests;
  for (int64_t i = 0; i < num_requests; ++i) {
    const Result<PlannedSession> session = dataset.session(static_cast<size_t>(i));
    if (!session) return session.error();
    const PlannedRequest& request = session->turns.front();
    Result<std::vector<TokenId>> prompt = ids_of(request.prompt, codec);
    if (!prompt) return prompt.error();
    requests.push_back({*std::move(prompt), request.num_output_tokens});
  }
  ClosedLoop loop(engine, std::move(requests), options.num_warmups);
  return loop.run(*options.load.max_concurrency, stop);
}

}  // namespace millrace::bench
