// What one I/O thread does in a second: whole answers and events of streams, over loopback, with
// the client in this process on another thread. Read the figures per server core: the client's
// thread needs a core of its own.
#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "http/request_parser.h"
#include "http/server.h"
#include "http/sse_reader.h"
#include "http/sse_writer.h"
#include "http/unique_fd.h"

namespace millrace::http {
namespace {

constexpr std::string_view kChatRequest =
    "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nAccept: application/json\r\n"
    "Accept-Encoding: identity\r\nUser-Agent: bench/1.0\r\nAuthorization: Bearer "
    "0123456789abcdef\r\n"
    "Content-Type: application/json\r\nContent-Length: 85\r\n\r\n"
    R"({"model":"m","messages":[{"role":"user","content":"What is the capital of France?"}]})";
constexpr std::string_view kChatAnswer =
    R"({"id":"c-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,)"
    R"("message":{"role":"assistant","content":"Paris."},"finish_reason":"stop"}]})";
constexpr std::string_view kEvent =
    R"({"id":"c-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,)"
    R"("delta":{"content":" Paris"},"logprobs":null,"finish_reason":null}]})";

// The processor seconds of this thread, or of another whose clock it is.
double cpu_seconds(clockid_t clock) {
  timespec time = {};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

UniqueFd connect_to(uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int rc = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name);
  CHECK(rc == 0, "the server listens");
  return fd;
}

// All clients on one thread: counts the bytes that come, and sends when told.
class ClientGroup {
 public:
  ClientGroup(uint16_t port, size_t num_clients) : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    for (size_t i = 0; i < num_clients; ++i) {
      sockets_.push_back(connect_to(port));
      epoll_event event = {.events = EPOLLIN, .data = {.u64 = i}};
      CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, sockets_[i].get(), &event) == 0, "epoll");
    }
  }

  size_t size() const { return sockets_.size(); }
  void send(size_t i, std::string_view bytes) {
    const ssize_t size = ::send(sockets_[i].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    CHECK(size == static_cast<ssize_t>(bytes.size()), "a request fits the socket's buffer");
  }

  // Waits for bytes of any client and gives them to `take(i, bytes)`.
  template <class Take>
  void receive(const Take& take) {
    std::array<epoll_event, 256> events;
    const int n = ::epoll_wait(epoll_.get(), events.data(), events.size(), 100);
    for (int k = 0; k < n; ++k) {
      const size_t i = events[static_cast<size_t>(k)].data.u64;
      const ssize_t size = ::recv(sockets_[i].get(), buffer_.data(), buffer_.size(), 0);
      if (size > 0) take(i, std::string_view(buffer_.data(), static_cast<size_t>(size)));
    }
  }

 private:
  UniqueFd epoll_;
  std::vector<UniqueFd> sockets_;
  std::array<char, 65536> buffer_;
};

struct BenchServer {
  std::unique_ptr<HttpServer> server;
  std::mutex mutex;
  std::vector<std::shared_ptr<Exchange>> exchanges;  // of /stream
  std::atomic<clockid_t> io_clock = 0;               // of the I/O thread

  BenchServer() {
    HttpServerOptions options{.addresses = {"127.0.0.1:0"}};
    const auto note_clock = [this] {
      clockid_t clock = 0;
      ::pthread_getcpuclockid(::pthread_self(), &clock);
      io_clock = clock;
    };
    CHECK(
        options.router
            .add(
                {.method = "POST",
                 .pattern = "/v1/chat/completions",
                 .handler =
                     [note_clock](const std::shared_ptr<Exchange>& exchange) {
                       note_clock();
                       exchange->respond(json_response(200, std::string(kChatAnswer)));
                     }}
            )
            .ok(),
        "a new route"
    );
    CHECK(
        options.router
            .add(
                {.method = "GET",
                 .pattern = "/stream",
                 .handler =
                     [this, note_clock](const std::shared_ptr<Exchange>& exchange) {
                       note_clock();
                       const std::lock_guard lock(mutex);
                       exchanges.push_back(exchange);
                     }}
            )
            .ok(),
        "a new route"
    );
    server = std::move(*HttpServer::start(std::move(options)));
  }
};

void report(benchmark::State& state, size_t num_items, double io_cpu_seconds) {
  state.SetItemsProcessed(static_cast<int64_t>(num_items));
  // What the I/O thread would do if it had a core of its own all the time.
  state.counters["per_server_core"] = static_cast<double>(num_items) / io_cpu_seconds;
}

// Keep-alive requests, one at a time on each of N connections.
void BM_JsonRequests(benchmark::State& state) {
  BenchServer bench;
  ClientGroup clients(*bench.server->port(), static_cast<size_t>(state.range(0)));
  clients.send(0, kChatRequest);
  clients.receive([](size_t, std::string_view) {});
  const double cpu_before = cpu_seconds(bench.io_clock);
  size_t num_answers = 0;
  for (size_t i = 0; i < clients.size(); ++i) clients.send(i, kChatRequest);
  for (auto _ : state) {
    clients.receive([&](size_t i, std::string_view) {
      ++num_answers;
      clients.send(i, kChatRequest);
    });
  }
  report(state, num_answers, cpu_seconds(bench.io_clock) - cpu_before);
}
BENCHMARK(BM_JsonRequests)->Arg(1)->Arg(32)->Arg(256)->UseRealTime();

// N streams, to each of which one writer thread (the engine) adds an event at every step. The
// writer waits when the readers are W events behind, so this is the rate at which all keep up. With
// W = 1 every event is a chunk and a system call of its own: the most expensive case.
void BM_SseEvents(benchmark::State& state) {
  BenchServer bench;
  const auto num_streams = static_cast<size_t>(state.range(0));
  const auto window = static_cast<size_t>(state.range(1));
  ClientGroup clients(*bench.server->port(), num_streams);
  for (size_t i = 0; i < num_streams; ++i) {
    clients.send(i, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  std::vector<SseWriter> writers;
  while (writers.size() < num_streams) {
    const std::lock_guard lock(bench.mutex);
    for (auto& exchange : bench.exchanges) writers.emplace_back(std::move(exchange));
    bench.exchanges.clear();
  }
  for (SseWriter& writer : writers) writer.begin();
  std::atomic<bool> is_over = false;
  std::atomic<size_t> num_written = 0;
  std::atomic<size_t> num_received = 0;
  const double cpu_before = cpu_seconds(bench.io_clock);
  std::thread engine([&] {
    while (!is_over) {
      if (num_written - num_received > (window - 1) * num_streams) {
        std::this_thread::yield();
        continue;
      }
      for (SseWriter& writer : writers) CHECK(writer.data(kEvent), "the reader keeps up");
      num_written += num_streams;
    }
  });
  for (auto _ : state) {
    clients.receive([&](size_t, std::string_view bytes) {
      size_t num_events = 0;
      for (size_t at = 0; (at = bytes.find("finish_reason", at)) != bytes.npos; ++at) ++num_events;
      num_received += num_events;
    });
  }
  is_over = true;
  engine.join();
  report(state, num_received, cpu_seconds(bench.io_clock) - cpu_before);
}
BENCHMARK(BM_SseEvents)
    ->ArgNames({"streams", "window"})
    ->ArgsProduct({{16, 256, 2048}, {1, 64}})
    ->UseRealTime();

// The user-space memory of an idle stream: what the process holds more with N of them open.
void BM_IdleStreamMemory(benchmark::State& state) {
  const auto rss_bytes = [] {
    size_t pages = 0;
    size_t resident = 0;
    FILE* file = std::fopen("/proc/self/statm", "r");
    CHECK(file != nullptr && std::fscanf(file, "%zu %zu", &pages, &resident) == 2, "statm");
    std::fclose(file);
    return resident * 4096;
  };
  constexpr size_t kNumStreams = 4000;
  rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  for (auto _ : state) {
    BenchServer bench;
    const size_t before = rss_bytes();
    ClientGroup clients(*bench.server->port(), kNumStreams);
    for (size_t i = 0; i < kNumStreams; ++i) {
      clients.send(i, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    size_t num_open = 0;
    while (num_open < kNumStreams) {
      const std::lock_guard lock(bench.mutex);
      num_open = bench.exchanges.size();
    }
    for (const auto& exchange : bench.exchanges) exchange->begin_stream({.body = "data: 1\n\n"});
    size_t num_bytes = 0;
    while (num_bytes < kNumStreams * 100) {
      clients.receive([&](size_t, std::string_view bytes) { num_bytes += bytes.size(); });
    }
    state.counters["bytes_per_stream"] =
        static_cast<double>(rss_bytes() - before) / static_cast<double>(kNumStreams);
  }
}
BENCHMARK(BM_IdleStreamMemory)->Iterations(1)->Unit(benchmark::kMillisecond);

void BM_ParseRequest(benchmark::State& state) {
  const HttpLimits limits;
  RequestParser parser(limits);
  for (auto _ : state) {
    std::string_view rest = kChatRequest;
    rest.remove_prefix(parser.feed(rest));
    parser.read_body();
    parser.feed(rest);
    benchmark::DoNotOptimize(parser.take());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_ParseRequest);

void BM_ReadEvents(benchmark::State& state) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes.append("data: ").append(kEvent).append("\n\n");
  SseReader reader;
  std::vector<SseEvent> events;
  for (auto _ : state) {
    events.clear();
    CHECK(reader.feed(bytes, events).ok(), "valid events");
  }
  state.SetItemsProcessed(state.iterations() * 100);
}
BENCHMARK(BM_ReadEvents);

}  // namespace
}  // namespace millrace::http
