#include "loadgen/mock_server.h"

#include <fmt/format.h>

#include <utility>

#include "http/address.h"
#include "loadgen/mock/mock_state.h"
#include "loadgen/mock/mock_thread.h"
#include "loadgen/mock/token_times.h"

namespace millrace::bench {
namespace {

constexpr size_t kNumThreadsMax = 256;
constexpr std::chrono::nanoseconds kTimeMax = std::chrono::hours(24);

Result<void> check_time(const MockTime& time, const char* name) {
  const bool is_in_range = time.mean.count() >= 0 && time.mean <= kTimeMax;
  if (!is_in_range) return invalid_argument("expected 0 to 24 hours", name);
  if (!(time.jitter >= 0.0 && time.jitter <= 1.0)) {
    return invalid_argument("expected a jitter from 0 to 1", name);
  }
  return {};
}

Result<void> check_share(double share, const char* name) {
  if (share >= 0.0 && share <= 1.0) return {};
  return invalid_argument("expected 0 to 1", name);
}

Result<void> check_count(const std::optional<int64_t>& count, int64_t min, const char* name) {
  if (!count || *count >= min) return {};
  return invalid_argument(fmt::format("expected {} or more", min), name);
}

Result<void> check_options(const MockOptions& options) {
  if (options.num_threads < 1 || options.num_threads > kNumThreadsMax) {
    return invalid_argument(fmt::format("expected 1 to {}", kNumThreadsMax), "num_threads");
  }
  const std::optional<int64_t> per_chunk = options.tokens_per_chunk;
  for (const Result<void>& checked : {
           check_time(options.ttft, "ttft"),
           check_time(options.itl, "itl"),
           check_count(per_chunk, 1, "tokens_per_chunk"),
           check_count(options.max_concurrency, 1, "max_concurrency"),
           check_share(options.output_share, "output_share"),
           check_share(options.prefix_hit_rate, "prefix_hit_rate"),
           check_count(options.fails_every, 1, "fails_every"),
           check_count(options.breaks_every, 1, "breaks_every"),
           check_count(options.malformed_every, 1, "malformed_every"),
           check_count(options.error_every, 1, "error_every"),
           check_count(options.dies_after, 0, "dies_after"),
       }) {
    if (!checked) return checked.error();
  }
  return {};
}

int64_t unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

std::string url_of(const http::Address& address) {
  const bool is_tcp = std::holds_alternative<http::TcpAddress>(address);
  return is_tcp ? "http://" + http::to_string(address) : http::to_string(address);
}

}  // namespace

struct MockServer::Impl {
  explicit Impl(const MockOptions& options) : state(options, unix_seconds()) {}
  ~Impl() {
    for (const std::unique_ptr<MockThread>& thread : threads) thread->stop();
    // All before any is destroyed: they speak to each other.
    for (const std::unique_ptr<MockThread>& thread : threads) thread->join();
  }

  MockState state;
  std::string url;
  std::vector<std::unique_ptr<MockThread>> threads;
};

MockServer::MockServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

MockServer::~MockServer() = default;

Result<std::unique_ptr<MockServer>> MockServer::start(const MockOptions& options) {
  if (Result<void> valid = check_options(options); !valid) return valid.error();
  const Result<http::Address> address = http::parse_address(options.address);
  if (!address) return address.error();
  auto impl = std::make_unique<Impl>(options);
  Result<http::ListeningSocket> socket = http::listen_on(*address, http::HttpLimits{});
  if (!socket) return socket.error();
  impl->url = url_of(socket->address);
  impl->threads.resize(options.num_threads);
  for (std::unique_ptr<MockThread>& thread : impl->threads) {
    Result<std::unique_ptr<MockThread>> made = MockThread::make(impl->state, impl->threads);
    if (!made) {
      impl->threads.clear();
      return made.error();
    }
    thread = std::move(*made);
  }
  for (size_t i = 1; i < impl->threads.size(); ++i) impl->threads[i]->start(i, std::nullopt);
  impl->threads[0]->start(0, std::move(socket->fd));
  return std::unique_ptr<MockServer>(new MockServer(std::move(impl)));
}

const std::string& MockServer::url() const {
  return impl_->url;
}

int64_t MockServer::num_requests() const {
  return impl_->state.num_requests();
}

std::vector<std::chrono::nanoseconds> MockServer::planned_times(int64_t number, int64_t num_tokens)
    const {
  const MockOptions& options = impl_->state.options();
  std::vector<std::chrono::nanoseconds> planned;
  TokenTimes times(options, number);
  while (std::ssize(planned) < num_tokens) {
    const int64_t count = std::min(options.tokens_per_chunk, num_tokens - std::ssize(planned));
    planned.insert(planned.end(), static_cast<size_t>(count), times.due());
    times.advance(count);
  }
  return planned;
}

std::optional<MockTimes> MockServer::actual_times(int64_t number) const {
  return impl_->state.times(number);
}

}  // namespace millrace::bench
