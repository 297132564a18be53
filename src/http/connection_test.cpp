// How connections live and die: order, keep-alive, deadlines, disconnects, limits, the end.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "http/test_server.h"

namespace millrace::http {
namespace {

using namespace std::chrono_literals;

std::string get(std::string_view target, std::string_view fields = "") {
  std::string bytes = "GET ";
  return bytes.append(target).append(" HTTP/1.1\r\nHost: x\r\n").append(fields).append("\r\n");
}

TestServer::Change with_limits(const std::function<void(HttpLimits&)>& change) {
  return [change](HttpServerOptions& options) { change(options.limits); };
}

TEST(Connection, ServesManyRequestsInOrder) {
  TestServer server;
  RawPeer peer(server.port());
  std::string bytes;
  for (int i = 0; i < 500; ++i) bytes += get("/id", fmt::format("X-Request-Id: r{}\r\n", i));
  std::thread sender([&] { peer.send(bytes); });
  for (int i = 0; i < 500; ++i) {
    const std::optional<PeerResponse> response = peer.read_response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->body, fmt::format("r{}", i));
  }
  sender.join();
  EXPECT_EQ(server.counters().num_connections_accepted, 1u);
  EXPECT_EQ(server.counters().num_responses[200], 500u);
}

TEST(Connection, PipelinedRequestsWaitForALateAnswer) {
  TestServer server;
  RawPeer peer(server.port());
  peer.send(get("/hold") + get("/id", "X-Request-Id: second\r\n") + get("/health"));
  const std::shared_ptr<Exchange> held = server.take_held();
  std::this_thread::sleep_for(20ms);
  held->respond(text_response(200, "first"));
  EXPECT_EQ(peer.read_response()->body, "first");
  EXPECT_EQ(peer.read_response()->body, "second");
  EXPECT_EQ(peer.read_response()->body, "ok\n");
}

TEST(Connection, TakesARequestByteByByte) {
  TestServer server;
  RawPeer peer(server.port());
  const std::string bytes =
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;a\r\nabc\r\n0\r\n\r\n";
  for (const char c : bytes) peer.send({&c, 1});
  EXPECT_EQ(peer.read_response()->body, "abc");
}

TEST(Connection, MovesLargeBodiesBothWays) {
  TestServer server;
  RawPeer peer(server.port());
  std::string body(20 << 20, 'a');
  for (size_t i = 0; i < body.size(); i += 1000) body[i] = static_cast<char>('a' + i % 26);
  for (int round = 0; round < 2; ++round) {
    const std::string head =
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
        "\r\n\r\n";
    ASSERT_TRUE(peer.send(head + body));
    const std::optional<PeerResponse> response = peer.read_response();
    ASSERT_TRUE(response);
    EXPECT_TRUE(response->body == body);
  }
}

TEST(Connection, HonoursConnectionCloseAndHttp10) {
  TestServer server;
  RawPeer closing(server.port());
  closing.send(get("/health", "Connection: close\r\n"));
  EXPECT_EQ(closing.read_response()->header("connection"), "close");
  EXPECT_EQ(closing.read_to_end(), "");
  RawPeer old(server.port());
  old.send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.read_response()->header("connection"), "close");
  EXPECT_EQ(old.read_to_end(), "");
  RawPeer kept(server.port());
  for (int i = 0; i < 2; ++i) {
    kept.send("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(kept.read_response()->header("connection"), "keep-alive");
  }
}

TEST(Connection, AnswersWithAnErrorWhenTheHandlerThrowsOrForgets) {
  TestServer server;
  RawPeer peer(server.port());
  peer.send(get("/throw"));
  EXPECT_EQ(peer.read_response()->status, 500);
  peer.send(get("/hold"));
  server.take_held().reset();
  EXPECT_EQ(peer.read_response()->status, 500);
  peer.send(get("/health"));
  EXPECT_EQ(peer.read_response()->status, 200);
}

TEST(Connection, AnswersOnlyOnce) {
  TestServer server;
  RawPeer peer(server.port());
  peer.send(get("/hold"));
  const std::shared_ptr<Exchange> held = server.take_held();
  EXPECT_FALSE(held->write("too early"));
  EXPECT_TRUE(held->respond(text_response(200, "one")));
  EXPECT_FALSE(held->respond(text_response(200, "two")));
  EXPECT_FALSE(held->begin_stream({}));
  EXPECT_EQ(peer.read_response()->body, "one");
}

TEST(Connection, ResponseFieldsCannotBeInjected) {
  TestServer server;
  RawPeer peer(server.port());
  peer.send(get("/hold"));
  server.take_held()->respond(
      {.headers = {{"x-a", "b\r\nx-evil: c"}, {"content-length", "7"}}, .body = "hello"}
  );
  const std::optional<PeerResponse> response = peer.read_response();
  EXPECT_EQ(response->body, "hello");
  EXPECT_EQ(response->header("x-a"), "b  x-evil: c");
  EXPECT_EQ(response->header("x-evil"), "");
}

TEST(Connection, ReapsSlowSenders) {
  TestServer server(with_limits([](HttpLimits& limits) {
    limits.header_timeout = 150ms;
    limits.body_idle_timeout = 150ms;
    limits.keep_alive_timeout = 150ms;
  }));
  RawPeer silent(server.port());
  EXPECT_TRUE(silent.is_closed_silently());

  RawPeer slow_head(server.port());
  slow_head.send("GET /health HTTP/1.1\r\nHo");
  EXPECT_EQ(slow_head.read_response()->status, 408);

  RawPeer slow_body(server.port());
  slow_body.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhel");
  EXPECT_EQ(slow_body.read_response()->status, 408);

  RawPeer idle(server.port());
  idle.send(get("/health"));
  EXPECT_EQ(idle.read_response()->status, 200);
  EXPECT_TRUE(idle.is_closed_silently());
  EXPECT_TRUE(server.is_well());
}

TEST(Connection, DribblingDoesNotHoldAConnection) {
  TestServer server(with_limits([](HttpLimits& limits) {
    limits.header_timeout = 200ms;
    limits.body_idle_timeout = 200ms;
    limits.linger_timeout = 100ms;
  }));
  RawPeer head(server.port());
  RawPeer body(server.port());
  head.send("GET /health HTTP/1.1\r\nA: ");
  body.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  // Each byte comes well within the timeout; all of them together do not.
  for (int i = 0; i < 1000 && (head.send("a") | body.send("1\r\na\r\n")); ++i) {
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(head.read_response()->status, 408);
  EXPECT_EQ(body.read_response()->status, 408);
  EXPECT_EQ(server.counters().num_timeouts, 2u);
}

TEST(Connection, EndlessChunkedBodyIsBounded) {
  TestServer server(with_limits([](HttpLimits& limits) { limits.body_bytes_max = 1 << 20; }));
  RawPeer peer(server.port());
  peer.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  std::thread reader([&] { EXPECT_EQ(peer.read_response()->status, 413); });
  const std::string chunk = "1000\r\n" + std::string(4096, 'a') + "\r\n";
  for (int i = 0; i < 20000 && peer.send(chunk); ++i) {
  }
  reader.join();
  EXPECT_TRUE(server.is_well());
  // What is discarded after the refusal is bounded too.
  EXPECT_LT(server.counters().num_bytes_received, uint64_t{20} << 20);
}

TEST(Connection, BodiesBeingReceivedAreBoundedTogether) {
  constexpr size_t kBodyBytes = size_t{1} << 20;
  TestServer server(with_limits([](HttpLimits& limits) {
    limits.body_bytes_max = kBodyBytes;
    limits.all_bodies_bytes_max = kBodyBytes;
  }));
  const std::string head = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n";
  const std::string body(kBodyBytes, 'a');
  RawPeer slow(server.port());
  slow.send(head);
  slow.send(std::string_view(body).substr(1));
  ASSERT_TRUE(eventually([&] { return server.counters().num_bytes_received > kBodyBytes; }));
  RawPeer refused(server.port());
  refused.send(head + body);
  const std::optional<PeerResponse> response = refused.read_response();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 503);
  EXPECT_EQ(response->header("connection"), "close");
  RawPeer brief(server.port());
  brief.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
  EXPECT_EQ(brief.read_response()->body, "hello") << "the first bytes of each are free";
  slow.send("a");
  EXPECT_EQ(slow.read_response()->status, 200);
  RawPeer next(server.port());
  next.send(head + body);
  EXPECT_EQ(next.read_response()->status, 200) << "what was received is counted no more";
}

enum class Departure { kFin, kReset };

class ConnectionDeparture : public testing::TestWithParam<Departure> {
 protected:
  static void leave(RawPeer& peer) { GetParam() == Departure::kFin ? peer.close() : peer.reset(); }
  // Whether the exchange hears of it within a second.
  static bool hears(const std::shared_ptr<Exchange>& exchange, RawPeer& peer) {
    auto gone = std::make_shared<std::promise<void>>();
    exchange->on_client_gone([gone] { gone->set_value(); });
    leave(peer);
    return gone->get_future().wait_for(1s) == std::future_status::ready &&
           exchange->is_client_gone();
  }
};

TEST_P(ConnectionDeparture, IsNoticedBeforeTheAnswer) {
  TestServer server;
  RawPeer peer(server.port());
  peer.send(get("/hold"));
  const std::shared_ptr<Exchange> held = server.take_held();
  EXPECT_TRUE(hears(held, peer));
  EXPECT_FALSE(held->respond(text_response(200, "")));
  EXPECT_EQ(server.counters().num_clients_gone, 1u);
}

TEST_P(ConnectionDeparture, IsNoticedWithinAStream) {
  TestServer server;
  RawPeer peer(server.port());
  peer.send(get("/hold"));
  const std::shared_ptr<Exchange> held = server.take_held();
  EXPECT_TRUE(held->begin_stream({}));
  EXPECT_TRUE(held->write("one"));
  EXPECT_EQ(peer.read_response(true)->status, 200);
  EXPECT_EQ(peer.read_chunk(), "one");
  EXPECT_TRUE(hears(held, peer));
  EXPECT_FALSE(held->write("two"));
  EXPECT_FALSE(held->finish());
  EXPECT_TRUE(eventually([&] { return server.counters().num_streams_open == 0; }));
}

TEST_P(ConnectionDeparture, IsNoticedBehindPipelinedRequests) {
  TestServer server;
  RawPeer peer(server.port());
  peer.send(get("/hold") + get("/health") + "GET /hea");
  EXPECT_TRUE(hears(server.take_held(), peer));
}

TEST_P(ConnectionDeparture, IsNoticedWhenTheBacklogIsFull) {
  TestServer server;
  RawPeer peer(server.port());
  peer.send(get("/hold"));
  const std::shared_ptr<Exchange> held = server.take_held();
  std::string requests;
  // More than a connection takes; less than the kernel buffers besides, or no FIN would come
  // through.
  while (requests.size() < 100'000) requests += get("/health");
  peer.send(requests);
  EXPECT_TRUE(hears(held, peer));
}

TEST_P(ConnectionDeparture, IsToldAtOnceToThoseWhoAskLate) {
  TestServer server;
  RawPeer peer(server.port());
  peer.send(get("/hold"));
  const std::shared_ptr<Exchange> held = server.take_held();
  leave(peer);
  EXPECT_TRUE(eventually([&] { return held->is_client_gone(); }));
  bool is_told = false;
  held->on_client_gone([&] { is_told = true; });
  EXPECT_TRUE(is_told);
}

INSTANTIATE_TEST_SUITE_P(
    Ways,
    ConnectionDeparture,
    testing::Values(Departure::kFin, Departure::kReset),
    [](const auto& way) { return way.param == Departure::kFin ? "Fin" : "Reset"; }
);

TEST(Connection, AnsweredClientsAreNotReportedAsGone) {
  TestServer server;
  RawPeer peer(server.port());
  peer.send(get("/hold"));
  const std::shared_ptr<Exchange> held = server.take_held();
  std::atomic<bool> is_told = false;
  held->on_client_gone([&] { is_told = true; });
  held->respond(text_response(200, "done"));
  EXPECT_EQ(peer.read_response()->body, "done");
  peer.close();
  EXPECT_TRUE(eventually([&] { return server.counters().num_connections_open == 0; }));
  EXPECT_FALSE(is_told);
  EXPECT_EQ(server.counters().num_clients_gone, 0u);
}

TEST(Connection, SurplusConnectionsGetHealthAndARefusal) {
  TestServer server(with_limits([](HttpLimits& limits) {
    limits.num_connections_max = 2;
    limits.num_surplus_connections_max = 2;
  }));
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 2; ++i) {
    peers.push_back(std::make_unique<RawPeer>(server.port()));
    peers.back()->send(get("/health"));
    EXPECT_EQ(peers.back()->read_response()->status, 200);
  }
  EXPECT_TRUE(server.is_well());
  RawPeer refused(server.port());
  refused.send(get("/id"));
  const std::optional<PeerResponse> response = refused.read_response();
  EXPECT_EQ(response->status, 503);
  EXPECT_EQ(response->header("retry-after"), "1");
  EXPECT_EQ(response->header("connection"), "close");
  peers.clear();
  EXPECT_TRUE(eventually([&] { return server.counters().num_connections_open <= 1; }));
  RawPeer admitted(server.port());
  admitted.send(get("/id"));
  EXPECT_EQ(admitted.read_response()->status, 200);
}

// They waited for ten seconds each, and every probe behind them.
TEST(Connection, SilentSurplusConnectionsDoNotKeepProbesWaiting) {
  TestServer server(with_limits([](HttpLimits& limits) {
    limits.num_connections_max = 1;
    limits.num_surplus_connections_max = 1;
    limits.header_timeout = std::chrono::minutes(10);
    limits.surplus_header_timeout = 20ms;
  }));
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (int i = 0; i < 10; ++i) silent.push_back(std::make_unique<RawPeer>(server.port()));
  EXPECT_TRUE(server.is_well());
}

// Lowers the limit of open files to what is open now and `num_more`.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t num_more) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const UniqueFd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    rlimit fewer = before_;
    fewer.rlim_cur = static_cast<rlim_t>(next.get()) + num_more;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &fewer), 0);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_ = {};
};

TEST(Connection, LackOfDescriptorsIsSurvived) {
  TestServer server;
  RawPeer open_before(server.port());
  open_before.send(get("/hold"));
  const std::shared_ptr<Exchange> held = server.take_held();
  {
    std::vector<std::unique_ptr<RawPeer>> idle;
    std::optional<RawPeer> probe;
    const FewDescriptors few(20);
    // Each connection takes two descriptors of this process; the last one only one, of the client.
    std::vector<UniqueFd> fillers;
    for (int i = 0; i < 5; ++i) {
      idle.push_back(std::make_unique<RawPeer>(server.port()));
      idle.back()->send(get("/health"));
      EXPECT_EQ(idle.back()->read_response()->status, 200);
    }
    int filler = 0;
    while ((filler = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) fillers.emplace_back(filler);
    EXPECT_EQ(errno, EMFILE);
    for (int i = 0; i < 3; ++i) {
      fillers.pop_back();
      probe.emplace(server.port());
      probe->send(get("/health"));
      const std::optional<PeerResponse> response = probe->read_response();
      ASSERT_TRUE(response);
      EXPECT_EQ(response->status, 200);
      EXPECT_EQ(response->header("connection"), "close");
      probe.reset();
      while ((filler = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) {
        fillers.emplace_back(filler);
      }
    }
    EXPECT_GE(server.counters().num_surplus_connections, 1u);
    held->respond(text_response(200, "still here"));
    EXPECT_EQ(open_before.read_response()->body, "still here");
  }
  EXPECT_TRUE(server.is_well());
}

TEST(Connection, DrainLetsAnswersFinish) {
  TestServer server;
  RawPeer idle(server.port());
  idle.send(get("/health"));
  EXPECT_EQ(idle.read_response()->status, 200);
  RawPeer busy(server.port());
  busy.send(get("/hold"));
  const std::shared_ptr<Exchange> held = server.take_held();
  std::future<size_t> num_cut = std::async(std::launch::async, [&] {
    return server.server().drain(Clock::now() + kPatience);
  });
  EXPECT_TRUE(idle.is_closed_silently());
  held->respond(text_response(200, "last"));
  const std::optional<PeerResponse> response = busy.read_response();
  EXPECT_EQ(response->body, "last");
  EXPECT_EQ(response->header("connection"), "close");
  EXPECT_EQ(busy.read_to_end(), "");
  EXPECT_EQ(num_cut.get(), 0u);
}

TEST(Connection, DrainLetsStreamsFinish) {
  TestServer server;
  RawPeer peer(server.port());
  peer.send(get("/hold"));
  const std::shared_ptr<Exchange> held = server.take_held();
  held->begin_stream({});
  EXPECT_EQ(peer.read_response(true)->status, 200);
  std::future<size_t> num_cut = std::async(std::launch::async, [&] {
    return server.server().drain(Clock::now() + kPatience);
  });
  EXPECT_TRUE(held->write("last"));
  EXPECT_EQ(peer.read_chunk(), "last");
  EXPECT_TRUE(held->finish());
  EXPECT_EQ(peer.read_chunk(), "");
  EXPECT_EQ(num_cut.get(), 0u);
  EXPECT_EQ(peer.read_to_end(), "");
}

TEST(Connection, DrainCutsWhatIsOpenAtItsDeadline) {
  TestServer server;
  RawPeer busy(server.port());
  busy.send(get("/hold"));
  const std::shared_ptr<Exchange> held = server.take_held();
  EXPECT_EQ(server.server().drain(Clock::now() + 30ms), 1u);
  EXPECT_TRUE(held->is_client_gone());
  EXPECT_FALSE(held->respond(text_response(200, "")));
  EXPECT_EQ(busy.read_to_end(), "");
}

TEST(Connection, ExchangesOutliveTheServer) {
  std::shared_ptr<Exchange> held;
  std::optional<RawPeer> peer;
  {
    TestServer server;
    peer.emplace(server.port());
    peer->send(get("/hold"));
    held = server.take_held();
    server.server().stop();
    server.server().stop();
  }
  EXPECT_TRUE(held->is_client_gone());
  EXPECT_FALSE(held->respond(text_response(200, "")));
  held.reset();
}

TEST(Connection, ThreadsShareTheConnections) {
  TestServer server([](HttpServerOptions& options) { options.num_threads = 3; });
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 30; ++i) peers.push_back(std::make_unique<RawPeer>(server.port()));
  for (const auto& peer : peers) peer->send(get("/id"));
  for (const auto& peer : peers) EXPECT_EQ(peer->read_response()->status, 200);
  EXPECT_EQ(server.counters().num_connections_open, 30u);
}

TEST(Connection, StartingFailsWithAReason) {
  TestServer server;
  const auto start = [](HttpServerOptions options) {
    return HttpServer::start(std::move(options)).error().where;
  };
  const std::string taken = "127.0.0.1:" + std::to_string(server.port());
  EXPECT_EQ(start({.addresses = {taken}}), taken);
  EXPECT_EQ(start({.addresses = {"nonsense"}}), "nonsense");
  EXPECT_EQ(start({.addresses = {}}), "addresses");
  EXPECT_EQ(start({.addresses = {"127.0.0.1:0"}, .num_threads = 0}), "num_threads");
  EXPECT_EQ(
      start({.addresses = {"127.0.0.1:0"}, .limits = {.num_chunks_max = 0}}), "num_chunks_max"
  );
  EXPECT_EQ(
      start({.addresses = {"127.0.0.1:0"}, .tls = TlsFiles{"/nowhere.pem", "/nowhere.pem"}}),
      "/nowhere.pem"
  );
}

}  // namespace
}  // namespace millrace::http
