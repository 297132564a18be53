#include "loadgen/server_probe.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "http/test_peer.h"
#include "loadgen/mock_server.h"
#include "loadgen/scripted_server.h"

namespace millrace::bench {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kLong{30'000};

std::unique_ptr<MockServer> start(const MockOptions& options) {
  auto server = MockServer::start(options);
  EXPECT_TRUE(server.ok());
  return std::move(*server);
}

ServerProbe make(const Target& target, std::optional<int> pid = {}) {
  Result<ServerProbe> probe = ServerProbe::make(target, pid);
  EXPECT_TRUE(probe.ok());
  return std::move(*probe);
}

TEST(ServerProbe, AsksTheMockServerEverything) {
  const auto server = start({.model = "m"});
  ServerProbe probe = make(target_of(server->url()));
  EXPECT_TRUE(probe.wait_ready(kLong).ok());
  EXPECT_EQ(*probe.models(), std::vector<std::string>{"m"});
  EXPECT_EQ(*probe.choose_model(""), "m");
  EXPECT_EQ(*probe.choose_model("m"), "m");
  EXPECT_EQ(probe.version(), "millrace-mock 1");
  EXPECT_TRUE(probe.flush_cache());
  EXPECT_TRUE(probe.wait_idle(milliseconds(0)));
  const ServerSample sample = probe.sample(Nanos(5));
  EXPECT_EQ(sample.at, Nanos(5));
  EXPECT_EQ(sample.num_running, 0);
  EXPECT_EQ(sample.generation_tokens, 0);
  EXPECT_FALSE(sample.cpu_seconds.has_value());
}

TEST(ServerProbe, NamesTheModelsThatThereAre) {
  ScriptedServer server;
  server.on("GET /v1/models", 200, R"({"data":[{"id":"a"},{"id":"b"},{"nothing":1},7]})");
  ServerProbe probe = make(server.target());
  EXPECT_EQ(*probe.choose_model(""), "a");
  EXPECT_EQ(*probe.choose_model("b"), "b");
  const Result<std::string> wrong = probe.choose_model("c");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().message, "the server has no model 'c': it has a, b");
}

TEST(ServerProbe, TakesAModelOnTrustWhereThereIsNoList) {
  ScriptedServer server;
  ServerProbe probe = make(server.target());
  EXPECT_EQ(*probe.choose_model("a"), "a");
  EXPECT_EQ(probe.choose_model("").error().message, "the server lists no models: name one");
  server.on("GET /v1/models", 500, R"({"error":{"message":"out\nof order"}})");
  EXPECT_EQ(probe.choose_model("a").error().message, "HTTP 500: out of order");
  server.on("GET /v1/models", 200, "<html>");
  EXPECT_EQ(probe.choose_model("a").error().where, "/v1/models");
}

TEST(ServerProbe, SendsTheKeyAndTheHeaders) {
  const auto server = start({.api_key = "secret"});
  Target target = target_of(server->url());
  EXPECT_FALSE(make(target).models().ok());
  target.api_key = "secret";
  EXPECT_TRUE(make(target).models().ok());
  ScriptedServer other;
  other.on("GET /v1/models", [](const http::Request& request) {
    const bool is_there = request.header("x-team") == "blue";
    return http::json_response(is_there ? 200 : 400, R"({"data":[]})");
  });
  target = other.target();
  target.headers = {{"X-Team", "blue"}};
  EXPECT_TRUE(make(target).models().ok());
}

TEST(ServerProbe, FindsTheRootBehindABaseUrlOfTheApi) {
  const auto server = start({});
  EXPECT_TRUE(make(target_of(server->url() + "/v1")).wait_ready(kLong).ok());
}

TEST(ServerProbe, WaitsWhileTheServerLoads) {
  ScriptedServer server;
  std::atomic<int> num_asked = 0;
  server.on("GET /health", [&](const http::Request&) {
    return http::json_response(++num_asked < 3 ? 503 : 200, "{}");
  });
  EXPECT_TRUE(make(server.target()).wait_ready(kLong).ok());
  EXPECT_EQ(num_asked, 3);
}

TEST(ServerProbe, SaysWhatAServerDidThatIsNotReady) {
  ScriptedServer server;
  server.on("GET /health", 503, R"({"error":{"message":"Loading model"}})");
  const Result<void> loading = make(server.target()).wait_ready(milliseconds(0));
  ASSERT_FALSE(loading.ok());
  EXPECT_EQ(loading.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(
      loading.error().message, "the server did not become ready within 0 s: HTTP 503: Loading model"
  );
  std::string url;
  {
    const ScriptedServer gone;
    url = gone.url();
  }
  const Result<void> refused = make(target_of(url)).wait_ready(milliseconds(0));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("Connection refused"), std::string::npos)
      << refused.error().message;
}

TEST(ServerProbe, IsContentWithAServerWithoutHealth) {
  ScriptedServer server;
  EXPECT_TRUE(make(server.target()).wait_ready(milliseconds(0)).ok());
  server.on("GET /v1/models", 503, "");
  EXPECT_FALSE(make(server.target()).wait_ready(milliseconds(0)).ok());
  server.on("GET /health", 401, "");
  EXPECT_TRUE(make(server.target()).wait_ready(milliseconds(0)).ok());
}

TEST(ServerProbe, TellsTheVersionOfEachKind) {
  ScriptedServer server;
  ServerProbe probe = make(server.target());
  EXPECT_EQ(probe.version(), "");
  server.on("GET /props", 200, R"({"build_info":"b5000-abc"})");
  EXPECT_EQ(probe.version(), "b5000-abc");
  server.on("GET /v1/models", 200, R"({"data":[{"id":"m","owned_by":"sglang"}]})");
  server.on("GET /get_server_info", 200, R"({"version":"0.4.6"})");
  EXPECT_EQ(probe.version(), "sglang 0.4.6");
  server.on("GET /server_info", 200, R"({"version":"0.5.1"})");
  EXPECT_EQ(probe.version(), "sglang 0.5.1");
  server.on("GET /v1/models", 200, R"({"data":[{"id":"m","owned_by":"vllm"}]})");
  server.on("GET /version", 200, R"({"version":"0.9.1"})");
  EXPECT_EQ(probe.version(), "vllm 0.9.1");
}

TEST(ServerProbe, FlushesAsEachKindWants) {
  ScriptedServer server;
  ServerProbe probe = make(server.target());
  EXPECT_FALSE(probe.flush_cache());
  server.on("POST /flush_cache", 405, "");
  EXPECT_FALSE(probe.flush_cache());
  server.on("GET /flush_cache", 200, "Cache flushed");
  EXPECT_TRUE(probe.flush_cache());
  server.on("POST /flush_cache", 400, "Flush cache failed");
  EXPECT_FALSE(probe.flush_cache());
  server.on("POST /reset_prefix_cache", 200, "");
  EXPECT_TRUE(probe.flush_cache());
}

TEST(ServerProbe, WaitsUntilNothingRunsOrWaits) {
  ScriptedServer server;
  ServerProbe probe = make(server.target());
  EXPECT_TRUE(probe.wait_idle(milliseconds(0)));  // nothing is known
  std::atomic<int> num_left = 3;
  server.on("GET /metrics", [&](const http::Request&) {
    const int left = num_left > 0 ? --num_left : 0;
    return http::text_response(200, "vllm:num_requests_waiting " + std::to_string(left) + "\n");
  });
  EXPECT_TRUE(probe.wait_idle(kLong));
  EXPECT_EQ(num_left, 0);
  server.on("GET /metrics", 200, "vllm:num_requests_running 1\n");
  EXPECT_FALSE(probe.wait_idle(milliseconds(0)));
  // Ctrl-C once took effect only after the minute that a busy server is given.
  std::stop_source stop;
  stop.request_stop();
  const TimePoint start = Clock::now();
  EXPECT_FALSE(probe.wait_idle(std::chrono::minutes(10), stop.get_token()));
  EXPECT_LT(Clock::now() - start, std::chrono::minutes(5));
}

TEST(ServerProbe, SeesARequestThatRuns) {
  const auto server = start({.ttft = {.mean = std::chrono::hours(1)}});
  const Target target = target_of(server->url());
  ServerProbe probe = make(target);
  http::RawPeer peer(std::get_if<http::TcpAddress>(&target.url.address)->port);
  peer.send(
      "POST /generate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
      "content-length: 12\r\n\r\n{\"text\":\"a\"}"
  );
  EXPECT_TRUE(http::eventually([&] { return probe.sample(Nanos(0)).num_running == 1; }));
  EXPECT_FALSE(probe.wait_idle(milliseconds(0)));
  peer.close();
  EXPECT_TRUE(probe.wait_idle(kLong));
}

TEST(ServerProbe, FindsMetricsWhereTensorRtHasThem) {
  ScriptedServer server;
  server.on("GET /metrics", 200, R"([{"gpuMemUsage":76665782272,"iter":154}])");
  server.on("GET /prometheus/metrics", 200, "trtllm_num_requests_running 2\n");
  ServerProbe probe = make(server.target());
  EXPECT_EQ(probe.sample(Nanos(0)).num_running, 2);
  EXPECT_EQ(probe.sample(Nanos(0)).num_running, 2);
  EXPECT_EQ(server.num_asked("GET /metrics"), 1);
}

TEST(ServerProbe, MeasuresALocalServer) {
  const auto server = start({});
  const Target target = target_of(server->url());
  const std::optional<int> pid = find_local_server(target.url);
  EXPECT_EQ(pid, ::getpid());
  const ServerSample sample = make(target, pid).sample(Nanos(0));
  EXPECT_GT(sample.cpu_seconds.value_or(0), 0);
  EXPECT_GT(sample.resident_bytes.value_or(0), 1e6);
  EXPECT_FALSE(find_local_server(target_of("http://192.0.2.1:80").url).has_value());
  EXPECT_FALSE(find_local_server(target_of("unix:/nowhere").url).has_value());
}

TEST(ServerProbe, SamplesNothingOfAServerThatIsGone) {
  auto server = start({});
  ServerProbe probe = make(target_of(server->url()));
  ASSERT_TRUE(probe.sample(Nanos(0)).num_running.has_value());
  server.reset();
  EXPECT_EQ(probe.sample(Nanos(3)), (ServerSample{.at = Nanos(3)}));
}

}  // namespace
}  // namespace millrace::bench
