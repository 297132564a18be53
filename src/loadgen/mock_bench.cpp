// What one thread of the mock server does in a second, over loopback, and how late its tokens are.
// The client is this thread: read the figures per server core. It scans for the ends of answers and
// does nothing else with the bytes.
#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "base/check.h"
#include "http/unique_fd.h"
#include "loadgen/mock_server.h"

namespace millrace::bench {
namespace {

double cpu_seconds(clockid_t clock) {
  timespec time = {};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Of all threads but this one.
double server_cpu_seconds() {
  return cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
}

std::string request_bytes(int64_t num_tokens, bool is_streamed) {
  std::string body = R"({"model":"mock","prompt":"one two three","temperature":0,"max_tokens":)";
  body += std::to_string(num_tokens);
  body += is_streamed ? R"(,"stream":true})" : "}";
  std::string bytes =
      "POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n";
  bytes += "content-length: " + std::to_string(body.size()) + "\r\n\r\n";
  return bytes + body;
}

class Clients {
 public:
  Clients(const MockServer& server, size_t num_clients, std::string request, std::string_view end)
      : epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        request_(std::move(request)),
        end_(end),
        tails_(num_clients) {
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    const std::string port = server.url().substr(server.url().rfind(':') + 1);
    name.sin_port = htons(static_cast<uint16_t>(std::stoi(port)));
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (size_t i = 0; i < num_clients; ++i) {
      sockets_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const int fd = sockets_.back().get();
      const int on = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      const int rc = ::connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name);
      CHECK(rc == 0, "the server listens");
      epoll_event event = {.events = EPOLLIN, .data = {.u64 = i}};
      CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0, "epoll");
    }
  }

  void send_all() {
    for (size_t i = 0; i < sockets_.size(); ++i) send(i);
  }

  // Waits for bytes; sends again where an answer has ended, if told. Gives the ended answers.
  size_t turn(bool sends_again) {
    std::array<epoll_event, 256> events;
    const int num_events = ::epoll_wait(epoll_.get(), events.data(), events.size(), 1000);
    size_t num_ended = 0;
    for (int k = 0; k < num_events; ++k) {
      const size_t i = events[static_cast<size_t>(k)].data.u64;
      const ssize_t size = ::recv(sockets_[i].get(), buffer_.data(), buffer_.size(), 0);
      CHECK(size > 0, "the server answers");
      if (!ends(i, {buffer_.data(), static_cast<size_t>(size)})) continue;
      ++num_ended;
      if (sends_again) send(i);
    }
    return num_ended;
  }

 private:
  void send(size_t i) {
    const ssize_t size = ::send(sockets_[i].get(), request_.data(), request_.size(), MSG_NOSIGNAL);
    CHECK(size == static_cast<ssize_t>(request_.size()), "a request fits the socket's buffer");
  }

  // The server sends nothing behind an answer's end.
  bool ends(size_t i, std::string_view bytes) {
    std::string& tail = tails_[i];
    tail.append(bytes.substr(bytes.size() - std::min(bytes.size(), end_.size())));
    if (tail.size() > end_.size()) tail.erase(0, tail.size() - end_.size());
    if (tail != end_) return false;
    tail.clear();
    return true;
  }

  http::UniqueFd epoll_;
  std::string request_;
  std::string end_;
  std::vector<std::string> tails_;
  std::vector<http::UniqueFd> sockets_;
  std::array<char, size_t{256} << 10> buffer_;
};

// Answers that leave at once: [clients, tokens of each, whether they are streamed].
void BM_MockAtOnce(benchmark::State& state) {
  const auto server = *MockServer::start({});
  const int64_t num_tokens = state.range(1);
  const bool is_streamed = state.range(2) != 0;
  const std::string_view end = is_streamed ? "data: [DONE]\n\n\r\n0\r\n\r\n" : "}}}";
  const auto clients = std::make_unique<Clients>(
      *server, static_cast<size_t>(state.range(0)), request_bytes(num_tokens, is_streamed), end
  );
  clients->send_all();
  const double begin = server_cpu_seconds();
  int64_t num_ended = 0;
  for (auto _ : state) num_ended += static_cast<int64_t>(clients->turn(true));
  const double seconds = server_cpu_seconds() - begin;
  const auto per_second = [](double value) {
    return benchmark::Counter(value, benchmark::Counter::kIsRate);
  };
  const auto num_requests = static_cast<double>(num_ended);
  const double num_chunks = num_requests * static_cast<double>(num_tokens);
  state.counters["requests"] = per_second(num_requests);
  state.counters["requests_per_server_core"] = num_requests / seconds;
  if (!is_streamed) return;
  state.counters["chunks"] = per_second(num_chunks);
  state.counters["chunks_per_server_core"] = num_chunks / seconds;
}
BENCHMARK(BM_MockAtOnce)
    ->ArgNames({"clients", "tokens", "stream"})
    ->Args({1, 1, 0})
    ->Args({64, 1, 0})
    ->Args({256, 1, 0})
    ->Args({64, 1, 1})
    ->Args({64, 16, 1})
    ->Args({64, 1000, 1})
    ->UseRealTime();

double percentile(std::vector<double>& values, double rank) {
  const auto index = static_cast<size_t>(rank / 100.0 * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(index), values.end());
  return values[index];
}

// How late tokens leave, in microseconds: [streams at once, ITL in microseconds].
void BM_MockLateness(benchmark::State& state) {
  constexpr int64_t kNumTokens = 500;
  const auto num_clients = static_cast<size_t>(state.range(0));
  const MockTime itl = {.mean = std::chrono::microseconds(state.range(1)), .jitter = 0.5};
  const auto server =
      *MockServer::start({.ttft = {.mean = itl.mean}, .itl = itl, .keeps_times = true});
  const auto clients = std::make_unique<Clients>(
      *server, num_clients, request_bytes(kNumTokens, true), "data: [DONE]\n\n\r\n0\r\n\r\n"
  );
  const double begin = server_cpu_seconds();
  for (auto _ : state) {
    clients->send_all();
    for (size_t num_ended = 0; num_ended < num_clients;) num_ended += clients->turn(false);
  }
  const double seconds = server_cpu_seconds() - begin;
  std::vector<double> late_us;
  for (int64_t number = 0; number < server->num_requests(); ++number) {
    const auto planned = server->planned_times(number, kNumTokens);
    const auto actual = server->actual_times(number);
    if (!actual) continue;  // beyond what is kept
    for (size_t i = 0; i < planned.size(); ++i) {
      late_us.push_back(1e-3 * static_cast<double>((actual->tokens[i] - planned[i]).count()));
    }
  }
  state.counters["chunks"] = benchmark::Counter(
      static_cast<double>(state.iterations() * kNumTokens) * static_cast<double>(num_clients),
      benchmark::Counter::kIsRate
  );
  state.counters["server_cores"] = benchmark::Counter(seconds, benchmark::Counter::kIsRate);
  state.counters["late_p50_us"] = percentile(late_us, 50);
  state.counters["late_p99_us"] = percentile(late_us, 99);
}
BENCHMARK(BM_MockLateness)
    ->ArgNames({"streams", "itl_us"})
    ->Args({1, 1000})
    ->Args({16, 1000})
    ->Args({64, 5000})
    ->Args({256, 10000})
    ->Args({256, 5000})
    ->Args({512, 5000})
    ->UseRealTime();

}  // namespace
}  // namespace millrace::bench
