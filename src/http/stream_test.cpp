// Streams: framing, order, many at once, slow readers.
#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "http/sse_reader.h"
#include "http/sse_writer.h"
#include "http/test_server.h"

namespace millrace::http {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kGetHold = "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n";

// Calls a function each time.
class FunctionListener final : public WakeListener {
 public:
  explicit FunctionListener(std::function<void()> function) : function_(std::move(function)) {}
  void on_wake() override { function_(); }

 private:
  std::function<void()> function_;
};

std::shared_ptr<WakeListener> make_listener(std::function<void()> function) {
  return std::make_shared<FunctionListener>(std::move(function));
}

std::vector<SseEvent> read_events(std::string_view body) {
  SseReader reader;
  std::vector<SseEvent> events;
  EXPECT_TRUE(reader.feed(body, events).ok());
  return events;
}

TEST(Stream, SendsEventsThatReadersUnderstand) {
  TestServer server;
  RawPeer peer(server.port());
  peer.send(kGetHold);
  SseWriter writer(server.take_held());
  EXPECT_TRUE(writer.begin({{"x-extra", "1"}}));
  EXPECT_TRUE(writer.data("one"));
  EXPECT_TRUE(writer.data("two\nlines\r\nthree\r"));
  EXPECT_TRUE(writer.comment("still\nhere"));
  EXPECT_TRUE(writer.event("error", "{}"));
  EXPECT_TRUE(writer.finish());
  EXPECT_FALSE(writer.data("late"));
  const std::optional<PeerResponse> response = peer.read_response();
  EXPECT_EQ(response->header("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(response->header("x-extra"), "1");
  EXPECT_EQ(response->header("transfer-encoding"), "chunked");
  const std::vector<SseEvent> expected = {
      {.data = "one"},
      {.data = "two\nlines\nthree\n"},
      {.type = "error", .data = "{}"},
  };
  EXPECT_EQ(read_events(response->body), expected);
  // The connection goes on.
  peer.send("GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(peer.read_response()->status, 200);
}

TEST(Stream, IsWrittenByAWakeCallbackOnTheIoThread) {
  constexpr int kNumNews = 2000;
  TestServer server;
  RawPeer peer(server.port());
  peer.send(kGetHold);
  const std::shared_ptr<Exchange> exchange = server.take_held();
  std::atomic<int> num_news = 0;
  std::atomic<int> num_told = 0;
  exchange->listen(make_listener([&, exchange] {
    if (num_told == 0) exchange->begin_stream({});
    for (; num_told < num_news; ++num_told) exchange->write("x");
    if (num_told == kNumNews) exchange->finish();
  }));
  // Two at a time, so that the second often comes while the callback runs: none may get lost.
  while (num_news < kNumNews) {
    ++num_news;
    exchange->wake();
    ++num_news;
    exchange->wake();
    ASSERT_TRUE(num_news == kNumNews || eventually([&] { return num_told == num_news; }));
  }
  const std::optional<PeerResponse> response = peer.read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body, std::string(kNumNews, 'x'));
  exchange->wake();  // nobody listens any more
}

TEST(Stream, LetsGoOfItsWakeCallbackWhenTheClientGoes) {
  TestServer server;
  const auto token = std::make_shared<int>(0);
  {
    RawPeer peer(server.port());
    peer.send(kGetHold);
    const std::shared_ptr<Exchange> exchange = server.take_held();
    exchange->listen(make_listener([token, exchange] {}));
  }
  const auto patience = std::chrono::steady_clock::now() + kPatience;
  while (token.use_count() > 1 && std::chrono::steady_clock::now() < patience) {
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(token.use_count(), 1);
}

TEST(Stream, EndsWithTheConnectionForHttp10) {
  TestServer server;
  RawPeer peer(server.port());
  peer.send("GET /hold HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  SseWriter writer(server.take_held());
  writer.begin();
  writer.data("one");
  writer.finish();
  const std::optional<PeerResponse> response = peer.read_response();
  EXPECT_EQ(response->header("transfer-encoding"), "");
  EXPECT_EQ(response->header("connection"), "close");
  EXPECT_EQ(response->body, "data: one\n\n");
}

TEST(Stream, HeadGetsNoBody) {
  TestServer server;
  RawPeer peer(server.port());
  peer.send("HEAD /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  SseWriter writer(server.take_held());
  writer.begin();
  writer.data("one");
  writer.finish();
  EXPECT_EQ(peer.read_response(true)->status, 200);
  peer.send("GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(peer.read_response()->body, "ok\n");
}

TEST(Stream, AnUnfinishedOneHasNoLastChunk) {
  TestServer server;
  RawPeer peer(server.port());
  peer.send(kGetHold);
  std::shared_ptr<Exchange> held = server.take_held();
  held->begin_stream({});
  held->write("one");
  held.reset();
  EXPECT_EQ(peer.read_response(true)->status, 200);
  EXPECT_EQ(peer.read_to_end(), "3\r\none\r\n");
}

TEST(Stream, ManyAtOnceFromManyThreadsKeepTheirOrder) {
  constexpr size_t kNumStreams = 60;
  constexpr size_t kNumEvents = 300;
  TestServer server([](HttpServerOptions& options) { options.num_threads = 2; });
  std::vector<std::unique_ptr<RawPeer>> peers;
  std::vector<std::shared_ptr<SseWriter>> writers;
  for (size_t i = 0; i < kNumStreams; ++i) {
    peers.push_back(std::make_unique<RawPeer>(server.port()));
    peers.back()->send(kGetHold);
    writers.push_back(std::make_shared<SseWriter>(server.take_held()));
    writers.back()->begin({{"x-stream", std::to_string(i)}});
  }
  const auto write_part = [&](size_t first) {
    for (size_t event = 0; event < kNumEvents; ++event) {
      for (size_t i = first; i < kNumStreams; i += 2) {
        writers[i]->data(std::to_string(i) + ":" + std::to_string(event));
      }
    }
    for (size_t i = first; i < kNumStreams; i += 2) writers[i]->finish();
  };
  std::thread even([&] { write_part(0); });
  std::thread odd([&] { write_part(1); });
  for (size_t i = 0; i < kNumStreams; ++i) {
    const std::optional<PeerResponse> response = peers[i]->read_response();
    ASSERT_TRUE(response);
    const std::vector<SseEvent> events = read_events(response->body);
    ASSERT_EQ(events.size(), kNumEvents);
    for (size_t event = 0; event < kNumEvents; ++event) {
      ASSERT_EQ(events[event].data, std::to_string(i) + ":" + std::to_string(event));
    }
  }
  even.join();
  odd.join();
}

void set_small_buffers(HttpServerOptions& options) {
  options.limits.stream_buffer_bytes_max = 64 << 10;
  options.limits.socket_send_bytes = 16 << 10;
}

TEST(Stream, ASlowReaderIsCutAndTheOthersAreNot) {
  TestServer server(set_small_buffers);
  RawPeer slow(server.port(), 4096);
  slow.send(kGetHold);
  SseWriter to_slow(server.take_held());
  RawPeer good(server.port());
  good.send(kGetHold);
  SseWriter to_good(server.take_held());
  to_slow.begin();
  to_good.begin();
  std::atomic<bool> is_told = false;
  to_slow.exchange().on_client_gone([&] { is_told = true; });
  EXPECT_EQ(good.read_response(true)->status, 200);

  const std::string payload(1000, 'x');
  size_t num_sent = 0;
  for (bool is_slow_open = true; is_slow_open && num_sent < 20'000; ++num_sent) {
    is_slow_open = to_slow.data(payload);
    ASSERT_TRUE(to_good.data(payload));
    ASSERT_EQ(good.read_chunk()->size(), payload.size() + 8);
  }
  EXPECT_LT(num_sent, 20'000u) << "the slow reader was never cut";
  EXPECT_TRUE(eventually([&] { return is_told.load(); }));
  EXPECT_EQ(server.counters().num_streams_cut, 1u);
  EXPECT_TRUE(to_good.data("end"));
  EXPECT_TRUE(to_good.finish());
  EXPECT_EQ(good.read_chunk(), "data: end\n\n");
  EXPECT_EQ(good.read_chunk(), "");
}

TEST(Stream, AReaderThatStopsIsCutAfterTheWriteTimeout) {
  TestServer server([](HttpServerOptions& options) {
    options.limits.write_timeout = 200ms;
    options.limits.socket_send_bytes = 16 << 10;
  });
  RawPeer stopped(server.port(), 4096);
  stopped.send(kGetHold);
  const std::shared_ptr<Exchange> held = server.take_held();
  held->begin_stream({});
  EXPECT_TRUE(held->write(std::string(200 << 10, 'x')));
  EXPECT_TRUE(eventually([&] { return held->is_client_gone(); }));
  EXPECT_EQ(server.counters().num_timeouts, 1u);

  RawPeer whole(server.port(), 4096);
  whole.send(kGetHold);
  server.take_held()->respond(text_response(200, std::string(8 << 20, 'x')));
  EXPECT_TRUE(eventually([&] { return server.counters().num_timeouts == 2; }));
  EXPECT_TRUE(server.is_well());
}

TEST(Stream, OneEventLargerThanTheBufferPassesAlone) {
  TestServer server([](HttpServerOptions& options) {
    options.limits.stream_buffer_bytes_max = 4096;
  });
  RawPeer peer(server.port());
  peer.send(kGetHold);
  const std::shared_ptr<Exchange> held = server.take_held();
  held->begin_stream({});
  EXPECT_EQ(peer.read_response(true)->status, 200);
  const std::string large(1 << 20, 'x');
  EXPECT_TRUE(held->write(large));
  EXPECT_EQ(peer.read_chunk(), large);
  held->finish();
  EXPECT_EQ(peer.read_chunk(), "");
}

// Whoever read it at full speed was cut at the next token, for what the large one had left there.
TEST(Stream, SmallEventsBehindALargeOneReachAClientThatReads) {
  TestServer server(set_small_buffers);
  RawPeer peer(server.port(), 4096);
  peer.send(kGetHold);
  const std::shared_ptr<Exchange> held = server.take_held();
  const std::string large(4 << 20, 'x');
  const std::string small(1000, 'y');
  held->begin_stream({});
  EXPECT_TRUE(held->write(large));
  std::string expected = large;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(held->write(small));
    expected += small;
  }
  EXPECT_TRUE(held->finish());
  const std::optional<PeerResponse> response = peer.read_response();
  ASSERT_TRUE(response);
  EXPECT_TRUE(response->body == expected);
  EXPECT_EQ(server.counters().num_streams_cut, 0u);
}

TEST(Stream, ALargeEventIsNoLeaveToFallBehindForEver) {
  TestServer server(set_small_buffers);
  RawPeer stopped(server.port(), 4096);
  stopped.send(kGetHold);
  const std::shared_ptr<Exchange> held = server.take_held();
  constexpr size_t kLargeBytes = 1 << 20;
  held->begin_stream({});
  EXPECT_TRUE(held->write(std::string(kLargeBytes, 'x')));
  const std::string small(1000, 'y');
  size_t num_written = 0;
  while (num_written < 2 * kLargeBytes && held->write(small)) num_written += small.size();
  EXPECT_GE(num_written, kLargeBytes - small.size());
  EXPECT_LT(num_written, 2 * kLargeBytes) << "it was never cut";
  EXPECT_TRUE(eventually([&] { return server.counters().num_streams_cut == 1; }));
}

// What a listener writes passes no buffer of the stream, but counts as if it did.
TEST(Stream, AListenerThatWritesMoreThanTheBufferIsCut) {
  TestServer server([](HttpServerOptions& options) {
    options.limits.stream_buffer_bytes_max = 4096;
  });
  RawPeer peer(server.port());
  peer.send(kGetHold);
  const std::shared_ptr<Exchange> exchange = server.take_held();
  std::atomic<int> num_written = 0;
  std::atomic<int> num_refused = 0;
  exchange->listen(make_listener([&, exchange] {
    exchange->begin_stream({});
    for (const size_t size : {2000UL, 2000UL, 96UL, 1UL}) {
      ++(exchange->write(std::string(size, 'x')) ? num_written : num_refused);
    }
  }));
  exchange->wake();
  EXPECT_TRUE(eventually([&] { return server.counters().num_streams_cut == 1; }));
  EXPECT_EQ(num_written, 3);
  EXPECT_EQ(num_refused, 1);
  EXPECT_TRUE(server.is_well());
}

// Each sees all of its bytes in order, whoever else's buffer they pass.
TEST(Stream, ManyListenersShareTheThreadsBuffers) {
  constexpr size_t kNumPeers = 20;
  constexpr int kNumNews = 200;
  TestServer server;
  std::vector<std::unique_ptr<RawPeer>> peers;
  std::vector<std::shared_ptr<Exchange>> exchanges;
  std::vector<int> num_told(kNumPeers);
  for (size_t i = 0; i < kNumPeers; ++i) {
    peers.push_back(std::make_unique<RawPeer>(server.port()));
    peers.back()->send(kGetHold);
    exchanges.push_back(server.take_held());
    exchanges.back()->listen(make_listener([&num_told, i, exchange = exchanges.back()] {
      if (num_told[i] == 0) exchange->begin_stream({});
      exchange->write(fmt::format("{}:{} ", i, num_told[i]++));
      num_told[i] < kNumNews ? exchange->wake() : static_cast<void>(exchange->finish());
    }));
  }
  for (const auto& exchange : exchanges) exchange->wake();
  for (size_t i = 0; i < kNumPeers; ++i) {
    std::string expected;
    for (int news = 0; news < kNumNews; ++news) expected += fmt::format("{}:{} ", i, news);
    const std::optional<PeerResponse> response = peers[i]->read_response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->body, expected);
  }
}

TEST(Stream, DisconnectsAndWritesRaceSafely) {
  TestServer server([](HttpServerOptions& options) { options.num_threads = 2; });
  for (int round = 0; round < 200; ++round) {
    RawPeer peer(server.port());
    peer.send(kGetHold);
    const std::shared_ptr<Exchange> held = server.take_held();
    auto num_told = std::make_shared<std::atomic<int>>(0);
    held->on_client_gone([num_told] { ++*num_told; });
    std::thread writer([&] {
      held->begin_stream({});
      for (int i = 0; i < 50 && held->write("data: x\n\n"); ++i) {
      }
      if (round % 3 == 0) held->finish();
    });
    if (round % 2 == 0) {
      peer.reset();
    } else {
      peer.close();
    }
    writer.join();
    if (round % 3 != 0) {
      EXPECT_TRUE(eventually([&] { return *num_told == 1; }));
    }
    EXPECT_LE(*num_told, 1);
  }
  EXPECT_TRUE(eventually([&] { return server.counters().num_connections_open == 0; }));
  EXPECT_EQ(server.counters().num_streams_open, 0u);
  EXPECT_TRUE(server.is_well());
}

}  // namespace
}  // namespace millrace::http
