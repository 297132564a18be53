#include "bench/open_streams.h"

#include <fmt/format.h>

#include <cmath>
#include <thread>

#include "bench/answer_check.h"
#include "bench/load_client.h"
#include "bench/process_meter.h"
#include "bench/request_bytes.h"

namespace millrace::bench {
namespace {

constexpr size_t kSampleEvery = 500;  // streams; of these the events are read at the end
constexpr double kSettleSeconds = 2;

class GapRecorder : public ResponseHandler {
 public:
  GapRecorder(size_t num_streams, double period_ms)
      : last_event_(num_streams), num_events_of_(num_streams, 0), period_ms_(period_ms) {}

  void on_events(size_t connection, size_t num_new, TimePoint now) override {
    num_open_ += num_events_of_[connection] == 0 ? 1 : 0;
    num_events_of_[connection] += num_new;
    if (is_recording_ && num_events_of_[connection] > num_new) {
      const double gap_ms = to_milliseconds(now - last_event_[connection]);
      misses_ms_.push_back(static_cast<float>(std::abs(gap_ms - period_ms_)));
      // Events that came together: no gap between them, where there should have been one.
      for (size_t i = 1; i < num_new; ++i) misses_ms_.push_back(static_cast<float>(period_ms_));
    }
    last_event_[connection] = now;
  }

  Result<void> on_response(size_t, const ResponseReader& response, TimePoint) override {
    return invalid_argument(fmt::format("a stream ended, status {}", response.status()));
  }

  // Memory for so many gaps is taken now: a vector that grows stands still for its copies.
  void begin_recording(size_t num_gaps_expected) {
    misses_ms_.reserve(num_gaps_expected);
    is_recording_ = true;
  }
  size_t num_open() const { return num_open_; }
  std::vector<float>& misses_ms() { return misses_ms_; }

 private:
  std::vector<TimePoint> last_event_;  // [stream]
  std::vector<size_t> num_events_of_;  // [stream]
  double period_ms_;
  bool is_recording_ = false;
  size_t num_open_ = 0;
  std::vector<float> misses_ms_;
};

class OpenStreams {
 public:
  OpenStreams(const ServerUnderLoad& target, const OpenStreamsOptions& options, LoadClient& client)
      : target_(target),
        options_(options),
        client_(client),
        recorder_(options.num_streams, 1e3 / options.tokens_per_second) {}

  Result<void> start_all() {
    const std::string request = open_streams_request(target_.model, options_);
    const TimePoint start = Clock::now();
    for (size_t i = 0; i < options_.num_streams; ++i) {
      // Not before it is used: a server closes connections on which nothing comes.
      if (Result<void> added = client_.add_connection(); !added) return added;
      if (i % kSampleEvery == 0) client_.keep_body(i);
      if (Result<void> sent = client_.send(i, request); !sent) return sent;
      const double due_s = static_cast<double>(i + 1) / options_.starts_per_second;
      do {
        Result<void> polled = client_.poll(recorder_, std::chrono::milliseconds(0));
        if (!polled) return polled;
      } while (to_seconds(Clock::now() - start) < due_s);
    }
    const TimePoint deadline = Clock::now() + std::chrono::seconds(30);
    while (recorder_.num_open() < options_.num_streams && Clock::now() < deadline) {
      if (Result<void> waited = run(0.1); !waited) return waited;
    }
    return run(kSettleSeconds);
  }

  Result<void> run(double seconds) {
    const TimePoint start = Clock::now();
    while (to_seconds(Clock::now() - start) < seconds) {
      // Never waits for events: whoever waits has to be woken by the server's core, which real
      // clients, on other machines, never ask of it.
      Result<void> polled = client_.poll(recorder_, std::chrono::milliseconds(0));
      if (!polled) return polled;
      if (options_.rest_time.count() > 0) std::this_thread::sleep_for(options_.rest_time);
    }
    return {};
  }

  Result<void> check() const {
    if (recorder_.num_open() != options_.num_streams) {
      return invalid_argument(
          fmt::format("only {} of {} streams began", recorder_.num_open(), options_.num_streams)
      );
    }
    for (size_t i = 0; i < options_.num_streams; i += kSampleEvery) {
      if (Result<void> ok = check_stream_beginning(client_.reader(i).body()); !ok) return ok;
    }
    return {};
  }

  GapRecorder& recorder() { return recorder_; }

 private:
  const ServerUnderLoad& target_;
  const OpenStreamsOptions& options_;
  LoadClient& client_;
  GapRecorder recorder_;
};

}  // namespace

std::string open_streams_request(const std::string& model, const OpenStreamsOptions& options) {
  const double lifetime_s = static_cast<double>(options.num_streams) / options.starts_per_second +
                            kSettleSeconds + options.seconds;
  // Longer than is needed: none may end while it is watched, also where starting takes its time.
  const auto num_tokens = static_cast<int64_t>(10 * lifetime_s * options.tokens_per_second);
  return generation_request(
      model, {.is_chat = options.is_chat, .is_stream = true, .num_output_tokens = num_tokens}
  );
}

Result<Report> measure_open_streams(
    const ServerUnderLoad& target, const OpenStreamsOptions& options
) {
  const Result<int64_t> rss_before = resident_bytes(target.pid);
  if (!rss_before) return rss_before.error();
  Result<LoadClient> client = LoadClient::connect(target.address, 0);
  if (!client) return client.error();
  OpenStreams streams(target, options, *client);
  if (Result<void> started = streams.start_all(); !started) return started.error();
  const double num_gaps =
      static_cast<double>(options.num_streams) * options.tokens_per_second * options.seconds;
  streams.recorder().begin_recording(static_cast<size_t>(1.1 * num_gaps));
  const Result<Window> window = Window::begin(target);
  if (!window) return window.error();
  if (Result<void> run = streams.run(options.seconds); !run) return run.error();
  std::vector<float>& misses = streams.recorder().misses_ms();
  Result<std::vector<Figure>> figures =
      window->figures("events", static_cast<double>(misses.size()));
  if (!figures) return figures.error();
  const Result<int64_t> rss_after = resident_bytes(target.pid);
  if (!rss_after) return rss_after.error();
  if (Result<void> checked = streams.check(); !checked) return checked.error();
  const double num_streams = static_cast<double>(options.num_streams);
  const double events_per_s = figures->front().value;
  figures->push_back({"pace_kept", events_per_s / (num_streams * options.tokens_per_second)});
  figures->push_back({"jitter_p50_ms", quantile(misses, 0.5)});
  figures->push_back({"jitter_p99_ms", quantile(misses, 0.99)});
  figures->push_back({"jitter_max_ms", quantile(misses, 1)});
  figures->push_back(
      {"server_kib_per_stream", static_cast<double>(*rss_after - *rss_before) / 1024 / num_streams}
  );
  return Report{
      "open_streams",
      fmt::format(
          "{} streams at {} tokens/s, {}",
          options.num_streams,
          options.tokens_per_second,
          std::holds_alternative<http::UnixAddress>(target.address) ? "Unix socket" : "TCP"
      ),
      std::move(*figures),
  };
}

}  // namespace millrace::bench
