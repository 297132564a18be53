#include "loadgen/load.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "loadgen/load_control.h"
#include "loadgen/load_monitor.h"
#include "loadgen/load_thread.h"
#include "loadgen/request_feed.h"
#include "loadgen/usage_probe.h"
#include "workload/arrivals.h"

namespace millrace::bench {
namespace {

constexpr int32_t kThreadsMax = 256;
constexpr int64_t kConcurrencyMax = 1'000'000;
// From when the threads are told to the clock's zero, so that the first request is not late.
constexpr std::chrono::milliseconds kLead{5};
// Connections opened ahead where nothing says how many will be needed.
constexpr int64_t kConnectionsMin = 16;
constexpr int64_t kConnectionsMax = 4096;
constexpr int64_t kWarmupsAtOnce = 64;
// What is over so soon after a stop is not worth a word.
constexpr std::chrono::milliseconds kStopsSoon{50};
// Requests worded before the clock where their number is not known.
constexpr int64_t kReadyMin = 1024;

int64_t raise_open_files_limit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
  static_cast<void>(::getrlimit(RLIMIT_NOFILE, &limit));
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, int64_t{1} << 40));
}

bool is_closed_loop(const LoadOptions& options) {
  return options.load.kind == LoadKind::kConcurrency;
}

Result<void> check(const LoadOptions& options, const Dataset& dataset) {
  const std::optional<int64_t> concurrency = options.load.max_concurrency;
  if (concurrency && (*concurrency < 1 || *concurrency > kConcurrencyMax)) {
    return invalid_argument(
        fmt::format("{} is no concurrency from 1 to {}", *concurrency, kConcurrencyMax),
        "max_concurrency"
    );
  }
  if (is_closed_loop(options) && !concurrency) {
    return invalid_argument("a closed loop needs a concurrency", "max_concurrency");
  }
  if (options.num_threads < 1 || options.num_threads > kThreadsMax) {
    return invalid_argument(
        fmt::format("{} is no number of threads from 1 to {}", options.num_threads, kThreadsMax),
        "num_threads"
    );
  }
  if (options.first_session < 0 || options.num_warmups < 0 ||
      options.num_sessions.value_or(0) < 0) {
    return invalid_argument("a number of requests is negative", "num_sessions");
  }
  const std::optional<size_t> size = dataset.size();
  const int64_t num_needed = options.first_session + options.num_sessions.value_or(1);
  if (size && num_needed > static_cast<int64_t>(*size)) {
    return invalid_argument(
        fmt::format("the dataset has {} sessions, expected {}", *size, num_needed), "num_sessions"
    );
  }
  return {};
}

// vLLM's equal gaps come before the requests, guidellm's behind them.
ArrivalKind arrival_kind(const LoadPlan& load) {
  const bool begins_at_once = load.kind == LoadKind::kConstant && !std::isinf(load.burstiness);
  return begins_at_once ? ArrivalKind::kConstant : ArrivalKind::kGamma;
}

Result<std::unique_ptr<Arrivals>> arrivals_of(const LoadOptions& options) {
  const LoadPlan& load = options.load;
  const bool is_drawn = load.kind == LoadKind::kConstant || load.kind == LoadKind::kGamma;
  const bool has_ramp = !load.ramp.empty();
  if (!is_drawn || (std::isinf(load.request_rate) && !has_ramp)) {
    return std::unique_ptr<Arrivals>();
  }
  if (has_ramp && load.ramp != "linear" && load.ramp != "exponential") {
    return invalid_argument(fmt::format("'{}' is no ramp: linear or exponential", load.ramp));
  }
  return make_arrivals({
      .kind = arrival_kind(load),
      .request_rate = load.request_rate,
      .burstiness = load.burstiness,
      .num_requests = options.num_sessions,
      .ramp = !has_ramp               ? RampKind::kNone
              : load.ramp == "linear" ? RampKind::kLinear
                                      : RampKind::kExponential,
      .ramp_start_rps = load.ramp_start_rps,
      .ramp_end_rps = load.ramp_end_rps,
      .rampup_seconds = options.rampup_seconds,
      .seed = options.seed,
  });
}

// To another zero.
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
  for (Chunk& chunk : record.chunks) {
    chunk = Chunk::make(chunk.at() + by, static_cast<int64_t>(chunk.num_tokens));
  }
}

// A load from its threads to its records.
class LoadRun {
 public:
  LoadRun(const Target& target, const Dataset& dataset, const LoadOptions& options)
      : target_(target), dataset_(dataset), options_(options), control_(options.max_errors) {}

  Result<LoadResult> run(const std::stop_token& stop);

 private:
  Result<void> prepare(const std::stop_token& stop);
  Result<void> make_feeds();
  Result<void> start_threads();
  int64_t num_ahead() const;
  void open_connections(const std::stop_token& stop);
  void warm_up(const std::stop_token& stop);
  Result<void> measure(const std::stop_token& stop);
  void begin(TimePoint zero);
  void wait_end(const std::stop_token& stop);
  bool wait_stopped(TimePoint grace_end);
  void take_unsent(Nanos now);
  void begin_slots(RequestFeed& feed, TimePoint zero, int64_t num_slots, double rampup_seconds);
  std::vector<double> cpu_seconds() const;
  void fill_result();

  const Target& target_;
  const Dataset& dataset_;
  const LoadOptions& options_;
  LoadControl control_;
  std::optional<Endpoint> endpoint_;
  std::optional<RequestWriter> writer_;
  std::unique_ptr<RequestFeed> warmup_feed_, feed_;
  std::vector<std::unique_ptr<LoadThread>> threads_;
  TimePoint zero_;
  Nanos load_end_{0};  // when nothing new was sent any more, if that ended the point
  std::vector<RequestRecord> warmups_, unsent_;
  LoadResult result_;
};

Result<LoadResult> LoadRun::run(const std::stop_token& stop) {
  if (Result<void> prepared = prepare(stop); !prepared) return prepared.error();
  open_connections(stop);
  warm_up(stop);
  if (Result<void> measured = measure(stop); !measured) return measured.error();
  fill_result();
  return std::move(result_);
}

Result<void> LoadRun::prepare(const std::stop_token& stop) {
  if (Result<void> checked = check(options_, dataset_); !checked) return checked;
  result_.client.open_files_limit = raise_open_files_limit();
  result_.client.num_threads = options_.num_threads;
  Result<Endpoint> endpoint = Endpoint::make(target_);
  if (!endpoint) return endpoint.error();
  endpoint_ = std::move(*endpoint);
  Result<RequestWriter> writer = RequestWriter::make(target_, takes_usage_deltas(target_, stop));
  if (!writer) return writer.error();
  writer_ = std::move(*writer);
  if (Result<void> made = make_feeds(); !made) return made;
  warmup_feed_->start();
  if (Result<void> ready =
          warmup_feed_->wait_ready(static_cast<size_t>(options_.num_warmups), stop);
      !ready) {
    return ready;
  }
  feed_->start();
  const int64_t num_ready = options_.num_sessions.value_or(
      std::max(kReadyMin, 4 * options_.load.max_concurrency.value_or(1))
  );
  if (Result<void> ready = feed_->wait_ready(static_cast<size_t>(num_ready), stop); !ready) {
    return ready;
  }
  return start_threads();
}

Result<void> LoadRun::make_feeds() {
  // Warm-up has prompts of its own where the dataset has so many; else, as with other tools, its
  // first one again and again.
  const std::optional<size_t> size = dataset_.size();
  const int64_t num_needed =
      options_.first_session + options_.num_warmups + options_.num_sessions.value_or(1);
  const bool is_small = size && num_needed > static_cast<int64_t>(*size);
  FeedOptions warmup{
      .dataset = &dataset_,
      .writer = &*writer_,
      .protocol = target_.protocol,
      .phase = Phase::kWarmup,
      .first_session = options_.first_session,
      .num_sessions = options_.num_warmups,
      .num_distinct = is_small ? 1 : std::max<int64_t>(1, options_.num_warmups),
      .has_one_turn = true,
  };
  warmup_feed_ = std::make_unique<RequestFeed>(std::move(warmup));
  Result<std::unique_ptr<Arrivals>> arrivals = arrivals_of(options_);
  if (!arrivals) return arrivals.error();
  FeedOptions measured{
      .dataset = &dataset_,
      .writer = &*writer_,
      .protocol = target_.protocol,
      .first_session = options_.first_session + (is_small ? 0 : options_.num_warmups),
      .num_sessions = options_.num_sessions,
      .first_index = options_.num_warmups,
      .is_trace = options_.load.kind == LoadKind::kTrace,
      .arrivals = std::move(*arrivals),
  };
  feed_ = std::make_unique<RequestFeed>(std::move(measured));
  return {};
}

Result<void> LoadRun::start_threads() {
  const LoadShared shared{
      .endpoint = *endpoint_,
      .writer = *writer_,
      .control = control_,
      .exchange =
          {.is_streamed = target_.is_streamed,
           .keeps_chunks = options_.keeps_chunks,
           .keeps_texts = options_.keeps_texts},
      .connect_timeout = target_.connect_timeout,
      .request_timeout = target_.request_timeout,
      .records_unsent = options_.load.kind != LoadKind::kBurst,
      .samples_live = static_cast<bool>(options_.on_progress),
  };
  for (int32_t i = 0; i < options_.num_threads; ++i) {
    threads_.push_back(std::make_unique<LoadThread>(shared, i));
    if (Result<void> started = threads_.back()->start(); !started) return started;
  }
  return {};
}

// Connections that are opened before the clock.
int64_t LoadRun::num_ahead() const {
  const int64_t num_sessions = options_.num_sessions.value_or(kConcurrencyMax);
  const LoadPlan& load = options_.load;
  int64_t num = kConnectionsMin;
  if (load.max_concurrency) {
    num = *load.max_concurrency;
  } else if (load.kind == LoadKind::kBurst || std::isinf(load.request_rate)) {
    num = kConnectionsMax;
  } else if (load.kind != LoadKind::kTrace) {
    // A quarter of a second's worth of requests; more are opened as they are needed.
    num = std::max(kConnectionsMin, static_cast<int64_t>(std::min(load.request_rate, 1e6) / 4));
  }
  const int64_t most = std::min(kConnectionsMax, result_.client.open_files_limit / 2);
  return std::clamp<int64_t>(std::min(num, num_sessions), 1, std::max<int64_t>(1, most));
}

void LoadRun::open_connections(const std::stop_token& stop) {
  const int64_t num = num_ahead();
  control_.begin(num, std::nullopt, std::nullopt);
  const auto num_threads = static_cast<int64_t>(threads_.size());
  for (int64_t i = 0; i < num_threads; ++i) {
    threads_[static_cast<size_t>(i)]->open_connections(
        num / num_threads + (i < num % num_threads ? 1 : 0)
    );
  }
  const TimePoint end = Clock::now() + 2 * target_.connect_timeout;
  if (control_.wait_done(stop, end, true)) return;
  for (const auto& thread : threads_) thread->stop_opening();
  control_.wait_done({}, std::nullopt, false);
}

void LoadRun::warm_up(const std::stop_token& stop) {
  if (options_.num_warmups == 0 || stop.stop_requested()) return;
  const int64_t num_slots =
      std::min(options_.num_warmups, options_.load.max_concurrency.value_or(kWarmupsAtOnce));
  zero_ = Clock::now();
  control_.begin(num_slots, std::nullopt, std::nullopt);
  begin_slots(*warmup_feed_, zero_, num_slots, 0.0);
  wait_end(stop);
  for (const auto& thread : threads_) thread->take_records(warmups_);
}

void LoadRun::begin_slots(
    RequestFeed& feed, TimePoint zero, int64_t num_slots, double rampup_seconds
) {
  std::vector<std::vector<SlotStart>> slots(threads_.size());
  for (int64_t i = 0; i < num_slots; ++i) {
    const double at = rampup_seconds * static_cast<double>(i) / static_cast<double>(num_slots);
    slots[static_cast<size_t>(i) % threads_.size()].push_back(
        {.slot = static_cast<int32_t>(i), .at = Nanos(static_cast<int64_t>(at * 1e9))}
    );
  }
  for (size_t i = 0; i < threads_.size(); ++i) {
    threads_[i]->begin_slots(feed, zero, std::move(slots[i]));
  }
}

Result<void> LoadRun::measure(const std::stop_token& stop) {
  const TimePoint warmup_zero = std::exchange(zero_, Clock::now() + kLead);
  for (RequestRecord& record : warmups_) shift(record, warmup_zero - zero_);
  result_.started_unix_ns = std::chrono::duration_cast<Nanos>(
                                (std::chrono::system_clock::now() + kLead).time_since_epoch()
  )
                                .count();
  LoadMonitor monitor({
      .options = options_,
      .control = control_,
      .feed = *feed_,
      .threads = threads_,
      .zero = zero_,
  });
  const std::vector<double> cpu_before = cpu_seconds();
  const double build_before = feed_->cpu_seconds();
  if (stop.stop_requested()) control_.end(StopReason::kInterrupted);
  if (!control_.reason()) {
    begin(zero_);
    if (Result<void> started = monitor.start(); !started) return started;
    wait_end(stop);
  }
  const std::vector<double> cpu_after = cpu_seconds();
  // The threads are told kLead before the zero; a point that never began has no other time.
  const double wall = std::max(to_seconds(kLead), to_seconds(Clock::now() - zero_));
  ClientUse& use = result_.client;
  use.cpu_seconds = feed_->cpu_seconds() - build_before;
  for (size_t i = 0; i < cpu_after.size(); ++i) {
    const double seconds = cpu_after[i] - cpu_before[i];
    use.cpu_seconds += seconds;
    use.busiest_thread_share = std::max(use.busiest_thread_share, seconds / wall);
  }
  result_.requests = monitor.finish();
  return {};
}

void LoadRun::begin(TimePoint zero) {
  load_end_ = Nanos(0);
  std::optional<TimePoint> end;
  if (options_.max_duration) end = zero + *options_.max_duration;
  if (is_closed_loop(options_)) {
    const int64_t num_slots = *options_.load.max_concurrency;
    control_.begin(num_slots, std::nullopt, end);
    begin_slots(*feed_, zero, num_slots, options_.rampup_seconds);
    return;
  }
  control_.begin(static_cast<int64_t>(threads_.size()), options_.load.max_concurrency, end);
  for (const auto& thread : threads_) thread->begin_arrivals(*feed_, zero);
}

// Until the phase is over, in whichever way.
void LoadRun::wait_end(const std::stop_token& stop) {
  const std::optional<TimePoint> end = control_.end_time();
  if (control_.wait_done(stop, end, true)) {
    const bool is_cut_short =
        control_.has_left_out() || (end && Clock::now() >= *end && !feed_->is_exhausted());
    if (!is_cut_short) return;
    control_.end(StopReason::kMaxSeconds);
    load_end_ = *end - zero_;
    return;
  }
  const bool is_interrupted = stop.stop_requested();
  control_.end(is_interrupted ? StopReason::kInterrupted : StopReason::kMaxSeconds);
  const TimePoint now = Clock::now();
  load_end_ = std::min(now, end.value_or(now)) - zero_;
  for (const auto& thread : threads_) thread->drain();
  take_unsent(now - zero_);
  const TimePoint grace_end = now + (control_.is_server_gone() ? Nanos(0) : options_.grace);
  // A stop that comes only now cuts the grace short.
  if (is_interrupted ? wait_stopped(grace_end) : control_.wait_done(stop, grace_end, false)) return;
  for (const auto& thread : threads_) thread->cut();
  control_.wait_done({}, std::nullopt, false);
}

// As LoadControl::wait_done(), but says so if it takes a while.
bool LoadRun::wait_stopped(TimePoint grace_end) {
  const TimePoint soon = std::min(grace_end, Clock::now() + kStopsSoon);
  if (control_.wait_done(options_.cut, soon, false)) return true;
  if (soon == grace_end || options_.cut.stop_requested()) return false;
  if (options_.on_stopping) options_.on_stopping(control_.num_holds());
  return control_.wait_done(options_.cut, grace_end, false);
}

// Open loop: who waited for a place until the end is censored, not forgotten. A burst with a limit
// is another matter: its schedule is only "as soon as there is a place".
void LoadRun::take_unsent(Nanos now) {
  for (const std::unique_ptr<SessionRun>& run : control_.take_waiting()) {
    control_.release_hold();
    if (options_.load.kind != LoadKind::kBurst) unsent_.push_back(unsent_record(*run, now));
  }
}

std::vector<double> LoadRun::cpu_seconds() const {
  std::vector<double> seconds;
  for (const auto& thread : threads_) seconds.push_back(thread->cpu_seconds());
  return seconds;
}

void LoadRun::fill_result() {
  for (const auto& thread : threads_) {
    result_.client.num_connections += thread->counters().num_connections.load();
  }
  std::vector<RequestRecord>& all = result_.requests;
  for (std::vector<RequestRecord>* part : {&warmups_, &unsent_}) {
    all.insert(
        all.end(), std::make_move_iterator(part->begin()), std::make_move_iterator(part->end())
    );
  }
  std::ranges::sort(all, {}, &RequestRecord::index);
  result_.finished = load_end_;
  bool is_first = true;
  bool has_any_answer = false;
  for (const RequestRecord& record : all) {
    has_any_answer = has_any_answer || (record.failure != FailureKind::kConnect &&
                                        record.failure != FailureKind::kTls);
    if (record.phase != Phase::kMeasured) continue;
    result_.first_dispatch =
        is_first ? record.admitted : std::min(result_.first_dispatch, record.admitted);
    const Nanos last_sign = record.outcome == Outcome::kUnfinished
                                ? record.last_chunk.value_or(Nanos(0))
                                : record.ended;
    result_.finished = std::max(result_.finished, last_sign);
    is_first = false;
  }
  const bool is_dead = !all.empty() && !has_any_answer;
  result_.stop_reason =
      control_.reason().value_or(is_dead ? StopReason::kServerGone : StopReason::kAllDone);
  result_.error = feed_->error();
}

}  // namespace

std::optional<int64_t> num_sessions_from(const Dataset& dataset, int64_t first_session) {
  const std::optional<size_t> size = dataset.size();
  if (!size || first_session >= static_cast<int64_t>(*size)) return std::nullopt;
  return static_cast<int64_t>(*size) - first_session;
}

Result<LoadResult> run_load(
    const Target& target, const Dataset& dataset, const LoadOptions& options, std::stop_token stop
) {
  LoadOptions all = options;
  if (!all.num_sessions) all.num_sessions = num_sessions_from(dataset, options.first_session);
  return LoadRun(target, dataset, all).run(stop);
}

}  // namespace millrace::bench
