#include "bench/first_token.h"

#include <fmt/format.h>

#include <optional>
#include <random>
#include <vector>

#include "bench/answer_check.h"
#include "bench/load_client.h"
#include "bench/request_bytes.h"

namespace millrace::bench {
namespace {

constexpr size_t kNumConnectionsMax = 8192;  // beyond, the server is not keeping up
constexpr uint64_t kSeed = 1;
constexpr size_t kSampleEvery = 32;
constexpr double kWarmUpSeconds = 0.5;

class Arrivals : public ResponseHandler {
 public:
  Arrivals(const ServerUnderLoad& target, const FirstTokenOptions& options, LoadClient& client)
      : options_(options),
        client_(client),
        request_(generation_request(
            target.model,
            {.is_chat = options.is_chat,
             .is_stream = true,
             .num_output_tokens = options.num_output_tokens}
        )) {}

  Result<void> run(double seconds) {
    std::exponential_distribution<double> gap_s(options_.requests_per_second);
    const TimePoint start = Clock::now();
    double due_s = gap_s(random_);
    while (due_s < seconds) {
      const TimePoint due =
          start + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(due_s));
      do {
        Result<void> polled = client_.poll(*this, std::chrono::milliseconds(0));
        if (!polled) return polled;
      } while (Clock::now() < due);
      if (Result<void> sent = send(due); !sent) return sent;
      due_s += gap_s(random_);
    }
    return {};
  }

  // Until all that were sent are answered.
  Result<void> finish() {
    const TimePoint deadline = Clock::now() + std::chrono::seconds(10);
    while (idle_.size() < client_.num_connections()) {
      if (Clock::now() > deadline) return Error{ErrorCode::kDeadlineExceeded, "no answer in 10 s"};
      Result<void> polled = client_.poll(*this, std::chrono::milliseconds(10));
      if (!polled) return polled;
    }
    return {};
  }

  void on_events(size_t connection, size_t num_new, TimePoint now) override {
    Wait& wait = waits_[connection];
    const size_t first_text = options_.is_chat ? 2 : 1;  // a chat's first event says who speaks
    wait.num_events += num_new;
    if (!wait.since || wait.num_events < first_text) return;
    ttft_ms_.push_back(static_cast<float>(to_milliseconds(now - *wait.since)));
    wait.since.reset();
  }

  Result<void> on_response(size_t connection, const ResponseReader& response, TimePoint) override {
    if (response.status() != 200 || !response.ends_with_done()) {
      return invalid_argument(fmt::format("status {}, or no [DONE]", response.status()));
    }
    if (!response.body().empty()) {
      const auto facts = check_stream(response.body(), {options_.num_output_tokens});
      if (!facts) return facts.error();
      ++num_checked_;
    }
    ++num_responses_;
    idle_.push_back(connection);
    return {};
  }

  bool keeps_body(size_t) override { return num_responses_ % kSampleEvery == 0; }

  void restart_counts() {
    num_responses_ = 0;
    ttft_ms_.clear();
    late_ms_.clear();
  }
  size_t num_responses() const { return num_responses_; }
  size_t num_checked() const { return num_checked_; }
  std::vector<float>& ttft_ms() { return ttft_ms_; }
  std::vector<float>& late_ms() { return late_ms_; }

 private:
  struct Wait {
    std::optional<TimePoint> since;  // none: the first text is here
    size_t num_events = 0;
  };

  // The connection that was used last is used first; a new one only where none is idle.
  Result<void> send(TimePoint due) {
    if (idle_.empty()) {
      if (Result<void> added = add_connection(); !added) return added;
    }
    const size_t connection = idle_.back();
    idle_.pop_back();
    waits_[connection] = {.since = due};
    late_ms_.push_back(static_cast<float>(to_milliseconds(Clock::now() - due)));
    return client_.send(connection, request_);
  }

  Result<void> add_connection() {
    const size_t connection = client_.num_connections();
    if (connection == kNumConnectionsMax) {
      return invalid_argument(fmt::format("more than {} requests open", connection));
    }
    if (Result<void> added = client_.add_connection(); !added) return added;
    client_.keep_body(connection);
    idle_.push_back(connection);
    waits_.emplace_back();
    return {};
  }

  const FirstTokenOptions& options_;
  LoadClient& client_;
  std::string request_;
  std::mt19937_64 random_{kSeed};
  std::vector<size_t> idle_;
  std::vector<Wait> waits_;  // [connection]
  size_t num_responses_ = 0;
  size_t num_checked_ = 0;
  std::vector<float> ttft_ms_;
  std::vector<float> late_ms_;  // by how much the client itself was late to send
};

}  // namespace

Result<Report> measure_first_token(
    const ServerUnderLoad& target, const FirstTokenOptions& options
) {
  Result<LoadClient> client = LoadClient::connect(target.address, 0);
  if (!client) return client.error();
  Arrivals arrivals(target, options, *client);
  if (Result<void> warm = arrivals.run(kWarmUpSeconds); !warm) return warm.error();
  if (Result<void> done = arrivals.finish(); !done) return done.error();
  arrivals.restart_counts();
  const Result<Window> window = Window::begin(target);
  if (!window) return window.error();
  if (Result<void> run = arrivals.run(options.seconds); !run) return run.error();
  if (Result<void> done = arrivals.finish(); !done) return done.error();
  Result<std::vector<Figure>> figures =
      window->figures("requests", static_cast<double>(arrivals.num_responses()));
  if (!figures) return figures.error();
  if (arrivals.ttft_ms().size() != arrivals.num_responses() || arrivals.num_checked() == 0) {
    return invalid_argument("not every request had a first token");
  }
  figures->push_back({"ttft_p50_ms", quantile(arrivals.ttft_ms(), 0.5)});
  figures->push_back({"ttft_p99_ms", quantile(arrivals.ttft_ms(), 0.99)});
  figures->push_back({"ttft_max_ms", quantile(arrivals.ttft_ms(), 1)});
  figures->push_back({"client_late_p99_ms", quantile(arrivals.late_ms(), 0.99)});
  return Report{
      "first_token",
      fmt::format(
          "Poisson, {:.0f} requests/s, {} out",
          options.requests_per_second,
          options.num_output_tokens
      ),
      std::move(*figures),
  };
}

}  // namespace millrace::bench
