#include "loadgen/mock_server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <thread>

#include "base/json.h"
#include "http/client.h"
#include "http/test_peer.h"

namespace millrace::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

std::unique_ptr<MockServer> start(const MockOptions& options) {
  Result<std::unique_ptr<MockServer>> server = MockServer::start(options);
  EXPECT_TRUE(server.ok()) << (server ? "" : server.error().message);
  return std::move(*server);
}

uint16_t port_of(const MockServer& server) {
  return static_cast<uint16_t>(std::stoi(server.url().substr(server.url().rfind(':') + 1)));
}

class Client {
 public:
  explicit Client(const MockServer& server, std::string key = "")
      : client_(*http::HttpClient::make(*http::parse_base_url(server.url()))) {
    if (!key.empty()) headers_.push_back({"authorization", "Bearer " + key});
  }

  Result<http::ClientResponse> get(const std::string& path) {
    return client_.request({.method = "GET", .path = path, .headers = headers_, .body = ""});
  }
  Result<http::ClientResponse> post(const std::string& path, const std::string& body) {
    return client_.request({.path = path, .headers = headers_, .body = body});
  }

  // The payloads of a stream, as far as it came, and when each came.
  struct Stream {
    std::vector<std::string> events;
    std::vector<TimePoint> at;
    int status = 0;
    std::string body;  // where it is no stream
    bool is_whole = false;
  };
  Stream stream(const std::string& path, const std::string& body) {
    Stream stream;
    const auto response = client_.stream(
        {.path = path, .headers = headers_, .body = body},
        [&](const http::SseEvent& event) {
          stream.events.push_back(event.data);
          stream.at.push_back(Clock::now());
          return true;
        }
    );
    if (response) {
      stream.status = response->status;
      stream.body = response->body;
    }
    stream.is_whole = response.ok();
    return stream;
  }

 private:
  http::HttpClient client_;
  std::vector<http::Header> headers_;
};

json::value parsed(const std::string& text) {
  const Result<json::value> value = parse_json(text);
  EXPECT_TRUE(value.ok()) << text;
  return value ? *value : json::value();
}

std::string text_of(const json::value& event) {
  const json::value& choice = event.at("choices").at(0);
  if (choice.as_object().contains("text")) return std::string(choice.at("text").as_string());
  const json::object& delta = choice.at("delta").as_object();
  return delta.contains("content") ? std::string(delta.at("content").as_string()) : "";
}

size_t count_words(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), ' '));
}

constexpr const char* kTenTokens =
    R"({"model":"mock","prompt":"a b c","max_tokens":10,"stream":true})";

TEST(MockServer, StreamsACompletionTokenByToken) {
  const auto server = start({});
  Client client(*server);
  const Client::Stream stream = client.stream("/v1/completions", kTenTokens);
  ASSERT_TRUE(stream.is_whole);
  ASSERT_EQ(stream.events.size(), 11u);
  EXPECT_EQ(stream.events.back(), "[DONE]");
  for (size_t i = 0; i < 10; ++i) {
    const json::value event = parsed(stream.events[i]);
    EXPECT_EQ(count_words(text_of(event)), 1u);
    const json::value& reason = event.at("choices").at(0).at("finish_reason");
    if (i < 9) {
      EXPECT_TRUE(reason.is_null());
    } else {
      EXPECT_EQ(reason, "length");
    }
  }
  EXPECT_EQ(server->num_requests(), 1);
}

TEST(MockServer, StreamsAChatWithItsRoleFirst) {
  const auto server = start({.tokens_per_chunk = 4});
  Client client(*server);
  const Client::Stream stream = client.stream(
      "/v1/chat/completions",
      R"({"messages":[{"role":"system","content":"be brief"},)"
      R"({"role":"user","content":[{"type":"text","text":"one two three"}]}],)"
      R"("max_completion_tokens":10,"stream":true,"stream_options":{"include_usage":true,)"
      R"("continuous_usage_stats":true}})"
  );
  ASSERT_EQ(stream.events.size(), 6u);  // role, 4 + 4 + 2 tokens, usage, the end
  EXPECT_EQ(parsed(stream.events[0]).at("choices").at(0).at("delta").at("role"), "assistant");
  const std::array<size_t, 3> counts = {4, 8, 10};
  for (size_t i = 0; i < 3; ++i) {
    const json::value event = parsed(stream.events[i + 1]);
    EXPECT_EQ(event.at("usage").at("completion_tokens"), counts[i]);
    EXPECT_EQ(event.at("usage").at("prompt_tokens"), 5);
    EXPECT_EQ(count_words(text_of(event)), counts[i] - (i == 0 ? 0 : counts[i - 1]));
  }
  const json::value usage = parsed(stream.events[4]);
  EXPECT_TRUE(usage.at("choices").as_array().empty());
  EXPECT_EQ(usage.at("usage").at("total_tokens"), 15);
}

TEST(MockServer, LeavesOutTheRoleChunkWhenTold) {
  const auto server = start({.sends_role_chunk = false});
  Client client(*server);
  const Client::Stream stream = client.stream(
      "/v1/chat/completions",
      R"({"messages":[{"role":"user","content":"x"}],"max_tokens":1,"stream":true})"
  );
  ASSERT_EQ(stream.events.size(), 2u);
  EXPECT_EQ(count_words(text_of(parsed(stream.events[0]))), 1u);
}

TEST(MockServer, TellsUsageAsItWasAskedTo) {
  const auto server = start({.prefix_hit_rate = 0.5, .sends_usage_deltas = false});
  Client client(*server);
  const Client::Stream stream = client.stream(
      "/v1/completions",
      R"({"prompt":[1,2,3,4],"max_tokens":2,"stream":true,"return_token_ids":true,)"
      R"("stream_options":{"include_usage":true,"continuous_usage_stats":true}})"
  );
  ASSERT_EQ(stream.events.size(), 4u);
  EXPECT_TRUE(parsed(stream.events[0]).at("usage").is_null());
  EXPECT_EQ(parsed(stream.events[0]).at("choices").at(0).at("token_ids").as_array().size(), 1u);
  const json::value usage = parsed(stream.events[2]).at("usage");
  EXPECT_EQ(usage.at("prompt_tokens"), 4);
  EXPECT_EQ(usage.at("completion_tokens"), 2);
  EXPECT_EQ(usage.at("prompt_tokens_details").at("cached_tokens"), 2);
}

TEST(MockServer, StreamsNativeEventsThatHoldAllSoFar) {
  const auto server = start({});
  Client client(*server);
  const Client::Stream stream = client.stream(
      "/generate",
      R"({"text":"a b","sampling_params":{"max_new_tokens":3,"temperature":0},"stream":true})"
  );
  ASSERT_EQ(stream.events.size(), 4u);
  for (size_t i = 0; i < 3; ++i) {
    const json::value event = parsed(stream.events[i]);
    EXPECT_EQ(event.at("output_ids").as_array().size(), i + 1);
    EXPECT_EQ(count_words(std::string(event.at("text").as_string())), i + 1);
    EXPECT_EQ(event.at("meta_info").at("completion_tokens"), i + 1);
    EXPECT_EQ(event.at("meta_info").at("prompt_tokens"), 2);
  }
  EXPECT_EQ(parsed(stream.events[2]).at("meta_info").at("finish_reason").at("type"), "length");
  const auto whole =
      client.post("/generate", R"({"input_ids":[5,6],"sampling_params":{"max_new_tokens":3}})");
  EXPECT_EQ(parsed(whole->body).at("output_ids").as_array().size(), 3u);
}

TEST(MockServer, AnswersWhole) {
  const auto server = start({.output_share = 0.5});
  Client client(*server);
  const auto completion = client.post("/v1/completions", R"({"prompt":["a b"],"max_tokens":8})");
  ASSERT_EQ(completion->status, 200);
  const json::value value = parsed(completion->body);
  EXPECT_EQ(count_words(text_of(value)), 4u);
  EXPECT_EQ(value.at("choices").at(0).at("finish_reason"), "stop");
  EXPECT_EQ(value.at("usage").at("completion_tokens"), 4);
  const auto chat = client.post(
      "/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}],"max_tokens":0})"
  );
  ASSERT_EQ(chat->status, 200);
  EXPECT_EQ(parsed(chat->body).at("choices").at(0).at("message").at("content"), "");
}

TEST(MockServer, PlansTimesThatOnlyTheSeedAndTheNumberDecide) {
  const MockOptions options = {
      .seed = 7,
      .ttft = {.mean = milliseconds(20), .jitter = 0.5},
      .itl = {.mean = milliseconds(2), .jitter = 1.0},
  };
  const auto a = start(options);
  const auto b = start(options);
  const std::vector<nanoseconds> times = a->planned_times(3, 1000);
  EXPECT_EQ(times, b->planned_times(3, 1000));
  EXPECT_NE(times, a->planned_times(4, 1000));
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_GE(times.front(), milliseconds(10));
  EXPECT_LE(times.front(), milliseconds(30));
  const std::chrono::duration<double> mean = (times.back() - times.front()) / 999.0;
  EXPECT_NEAR(mean.count(), 2e-3, 1e-4);  // four standard errors: 4 * 2e-3 / sqrt(3 * 999)
}

TEST(MockServer, PlansExactTimesWithoutJitter) {
  const auto server = start(
      {.ttft = {.mean = milliseconds(20)}, .itl = {.mean = milliseconds(2)}, .tokens_per_chunk = 2}
  );
  const std::vector<nanoseconds> expected = {
      milliseconds(20), milliseconds(20), milliseconds(24), milliseconds(24), milliseconds(28)};
  EXPECT_EQ(server->planned_times(0, 5), expected);
}

TEST(MockServer, NeverSendsATokenBeforeItsTime) {
  const auto server = start(
      {.seed = 3,
       .ttft = {.mean = milliseconds(5), .jitter = 0.5},
       .itl = {.mean = milliseconds(1), .jitter = 0.5},
       .tokens_per_chunk = 3,
       .keeps_times = true}
  );
  Client client(*server);
  const TimePoint sent = Clock::now();
  const Client::Stream stream = client.stream("/v1/completions", kTenTokens);
  const std::vector<nanoseconds> planned = server->planned_times(0, 10);
  const std::optional<MockTimes> actual = server->actual_times(0);
  ASSERT_TRUE(actual.has_value());
  ASSERT_EQ(actual->tokens.size(), 10u);
  EXPECT_GE(actual->read, sent);
  ASSERT_EQ(stream.at.size(), 5u);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_GE(actual->tokens[i], planned[i]);
    EXPECT_GE(stream.at[i / 3], actual->read + actual->tokens[i]);
  }
  EXPECT_FALSE(server->actual_times(1).has_value());
}

TEST(MockServer, HoldsBackAWholeAnswerUntilItsLastToken) {
  const auto server = start(
      {.ttft = {.mean = milliseconds(4)}, .itl = {.mean = milliseconds(1)}, .keeps_times = true}
  );
  Client client(*server);
  ASSERT_EQ(client.post("/v1/completions", R"({"prompt":"a","max_tokens":5})")->status, 200);
  const std::optional<MockTimes> actual = server->actual_times(0);
  ASSERT_TRUE(actual.has_value());
  ASSERT_EQ(actual->tokens.size(), 5u);
  EXPECT_GE(actual->tokens.front(), milliseconds(8));
}

TEST(MockServer, StreamsTheSameTokensHoweverTheyAreTimed) {
  const auto fast = start({.seed = 5});
  const auto slow = start(
      {.seed = 5,
       .ttft = {.mean = milliseconds(1)},
       .itl = {.mean = std::chrono::microseconds(100)}}
  );
  Client fast_client(*fast);
  Client slow_client(*slow);
  std::string texts[2];
  for (const auto& event : fast_client.stream("/v1/completions", kTenTokens).events) {
    if (event != "[DONE]") texts[0] += text_of(parsed(event));
  }
  for (const auto& event : slow_client.stream("/v1/completions", kTenTokens).events) {
    if (event != "[DONE]") texts[1] += text_of(parsed(event));
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(count_words(texts[0]), 10u);
}

TEST(MockServer, LongStreamsDoNotWaitForASlowReaderInMemory) {
  const auto server = start({.keeps_times = true});
  http::RawPeer peer(port_of(*server), 4096);
  const std::string body = R"({"prompt":"a","max_tokens":100000,"stream":true})";
  peer.send(
      "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
      "content-length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body
  );
  // Whoever reads nothing gets what fits the buffers, and others are served meanwhile.
  Client client(*server);
  EXPECT_TRUE(client.stream("/v1/completions", kTenTokens).is_whole);
  EXPECT_FALSE(server->actual_times(0).has_value());
  const std::optional<http::PeerResponse> response = peer.read_response();
  ASSERT_TRUE(response.has_value());
  size_t num_events = 0;
  for (size_t at = 0; (at = response->body.find("data: ", at)) != std::string::npos; ++at) {
    ++num_events;
  }
  EXPECT_EQ(num_events, 100'001u);
  EXPECT_EQ(server->actual_times(0)->tokens.size(), 100'000u);
}

TEST(MockServer, TokenizesAndBack) {
  const auto server = start({});
  Client client(*server);
  const auto tokens = client.post("/tokenize", R"({"prompt":" w17 w0  w99999"})");
  const json::value value = parsed(tokens->body);
  EXPECT_EQ(value.at("count"), 3);
  EXPECT_EQ(value.at("tokens"), (json::array{17, 0, 99999}));
  const auto text = client.post("/detokenize", R"({"tokens":[17,0,99999]})");
  EXPECT_EQ(parsed(text->body).at("prompt"), " w17 w0 w99999");
  EXPECT_EQ(client.post("/detokenize", R"({"tokens":[100000]})")->status, 400);
  // Other words are one token each, always the same.
  const std::string words = R"({"prompt":"The w007 the"})";
  EXPECT_EQ(parsed(client.post("/tokenize", words)->body).at("count"), 3);
  EXPECT_EQ(client.post("/tokenize", words)->body, client.post("/tokenize", words)->body);
}

TEST(MockServer, RefusesWhatItDoesNotUnderstand) {
  const auto server = start({.refuses_usage_deltas = true});
  Client client(*server);
  struct Case {
    const char* path;
    const char* body;
    int status;
  };
  const std::vector<Case> cases = {
      {"/v1/completions", "{", 400},
      {"/v1/completions", "[]", 400},
      {"/v1/completions", R"({"max_tokens":3})", 400},
      {"/v1/completions", R"({"prompt":{}})", 400},
      {"/v1/completions", R"({"prompt":["a","b"]})", 400},
      {"/v1/completions", R"({"prompt":[-1]})", 400},
      {"/v1/completions", R"({"prompt":"a","max_tokens":-1})", 400},
      {"/v1/completions", R"({"prompt":"a","max_tokens":1e30})", 400},
      {"/v1/completions", R"({"prompt":"a","max_tokens":"1"})", 400},
      {"/v1/completions", R"({"prompt":"a","stream":1})", 400},
      {"/v1/completions", R"({"prompt":"a","n":2})", 400},
      {"/v1/completions", R"({"prompt":"a","model":"other"})", 404},
      {"/v1/completions", R"({"prompt":"a","stream_options":{"include_usage":"x"}})", 400},
      {"/v1/completions",
       R"({"prompt":"a","stream_options":{"continuous_usage_stats":true}})",
       400},
      {"/v1/chat/completions", R"({"messages":[]})", 400},
      {"/v1/chat/completions", R"({"messages":[{"content":"a"}]})", 400},
      {"/v1/chat/completions", R"({"messages":[{"role":"user","content":[1]}]})", 400},
      {"/generate", R"({"prompt":"a"})", 400},
      {"/generate", R"({"text":"a","input_ids":[1]})", 400},
      {"/generate", R"({"text":"a","sampling_params":{"max_new_tokens":2000000}})", 400},
      {"/tokenize", R"({"prompt":1})", 400},
      {"/detokenize", "{}", 400},
      {"/health", "{}", 405},
      {"/nowhere", "{}", 404},
  };
  for (const Case& test : cases) {
    const auto response = client.post(test.path, test.body);
    ASSERT_TRUE(response.ok());
    EXPECT_EQ(response->status, test.status) << test.path << ' ' << test.body;
    EXPECT_FALSE(parsed(response->body).at("error").at("message").as_string().empty());
  }
  EXPECT_EQ(client.get("/v1/completions")->status, 405);
  EXPECT_EQ(server->num_requests(), 0);
}

TEST(MockServer, WantsTheKey) {
  const auto server = start({.api_key = "secret"});
  Client without(*server);
  Client with(*server, "secret");
  EXPECT_EQ(without.get("/health")->status, 200);
  EXPECT_EQ(without.get("/v1/models")->status, 401);
  EXPECT_EQ(without.post("/v1/completions", R"({"prompt":"a"})")->status, 401);
  EXPECT_EQ(with.post("/v1/completions", R"({"prompt":"a"})")->status, 200);
}

TEST(MockServer, FailsBreaksAndGarblesAsTold) {
  const auto server =
      start({.fails_every = 2, .breaks_every = 3, .malformed_every = 5, .error_every = 7});
  std::map<int64_t, Client::Stream> streams;
  for (int64_t number = 0; number < 7; ++number) {
    Client client(*server);
    streams[number] = client.stream("/v1/completions", kTenTokens);
  }
  EXPECT_TRUE(streams[0].is_whole);
  EXPECT_EQ(streams[0].events.size(), 11u);
  EXPECT_EQ(streams[1].status, 500);
  EXPECT_FALSE(streams[2].is_whole);
  EXPECT_EQ(streams[2].events.size(), 5u);
  EXPECT_EQ(streams[4].events.size(), 12u);
  EXPECT_FALSE(parse_json(streams[4].events[5]).ok());
  EXPECT_TRUE(streams[6].is_whole);
  ASSERT_EQ(streams[6].events.size(), 7u);
  EXPECT_TRUE(parsed(streams[6].events[5]).as_object().contains("error"));
  EXPECT_EQ(streams[6].events[6], "[DONE]");
}

TEST(MockServer, DiesWhenTold) {
  const auto server = start({.num_threads = 2, .dies_after = 2});
  Client client(*server);
  EXPECT_TRUE(client.stream("/v1/completions", kTenTokens).is_whole);
  EXPECT_TRUE(client.stream("/v1/completions", kTenTokens).is_whole);
  EXPECT_FALSE(client.stream("/v1/completions", kTenTokens).is_whole);
  EXPECT_TRUE(http::eventually([&] { return !Client(*server).get("/health").ok(); }));
  EXPECT_EQ(server->num_requests(), 2);
}

TEST(MockServer, LetsSoManyRunAtOnce) {
  const auto server = start(
      {.ttft = {.mean = milliseconds(5)},
       .num_threads = 2,
       .max_concurrency = 2,
       .keeps_times = true}
  );
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      Client client(*server);
      EXPECT_TRUE(client.stream("/v1/completions", kTenTokens).is_whole);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<TimePoint> ends;
  TimePoint first = TimePoint::max();
  for (int64_t number = 0; number < 6; ++number) {
    const MockTimes times = *server->actual_times(number);
    first = std::min(first, times.read);
    ends.push_back(times.read + times.tokens.back());
  }
  std::sort(ends.begin(), ends.end());
  // Three rounds of two.
  EXPECT_GE(ends[2], first + milliseconds(10));
  EXPECT_GE(ends[4], first + milliseconds(15));
}

TEST(MockServer, PassesOnTheTurnOfAClientThatLeft) {
  const auto server = start({.ttft = {.mean = std::chrono::hours(1)}, .max_concurrency = 1});
  const std::string body = R"({"prompt":"a","max_tokens":1,"stream":true})";
  const std::string request =
      "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
      "content-length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body;
  std::vector<std::unique_ptr<http::RawPeer>> peers;
  for (int64_t i = 0; i < 3; ++i) {
    peers.push_back(std::make_unique<http::RawPeer>(port_of(*server)));
    peers.back()->send(request);
    ASSERT_TRUE(http::eventually([&] { return server->num_requests() == i + 1; }));
  }
  Client client(*server);
  const auto shows = [&](const std::string& line) {
    return http::eventually([&] {
      return client.get("/metrics")->body.find(line) != std::string::npos;
    });
  };
  EXPECT_TRUE(shows("num_requests_waiting{model_name=\"mock\"} 2"));
  peers[1]->close();  // waits
  EXPECT_TRUE(shows("num_requests_waiting{model_name=\"mock\"} 1"));
  peers[0]->close();  // runs
  EXPECT_TRUE(shows("num_requests_waiting{model_name=\"mock\"} 0"));
  EXPECT_TRUE(shows("num_requests_running{model_name=\"mock\"} 1"));
  peers[2]->close();
  EXPECT_TRUE(shows("num_requests_running{model_name=\"mock\"} 0"));
}

TEST(MockServer, AnswersPipelinedRequestsInOrder) {
  const auto server = start({});
  http::RawPeer peer(port_of(*server));
  std::string requests;
  for (int i = 1; i <= 200; ++i) {
    const std::string body = R"({"prompt":"a","max_tokens":)" + std::to_string(i) + "}";
    requests +=
        "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        "content-length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  std::thread sender([&] { EXPECT_TRUE(peer.send(requests)); });
  sender.join();
  for (int i = 1; i <= 200; ++i) {
    const auto response = peer.read_response();
    ASSERT_TRUE(response.has_value());
    EXPECT_EQ(parsed(response->body).at("usage").at("completion_tokens"), i);
  }
}

TEST(MockServer, SaysWhatIsNoHttp) {
  const auto server = start({});
  http::RawPeer peer(port_of(*server));
  peer.send("no http at all\r\n\r\n");
  const auto response = peer.read_response();
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 400);
  EXPECT_EQ(response->header("connection"), "close");
}

TEST(MockServer, CountsForMetrics) {
  const auto server = start({.model = "m", .max_concurrency = 4, .prefix_hit_rate = 0.25});
  Client client(*server);
  client.stream("/v1/completions", R"({"prompt":[1,2,3,4],"max_tokens":7,"stream":true})");
  ASSERT_EQ(client.post("/flush_cache", "{}")->status, 200);
  ASSERT_EQ(client.post("/reset_prefix_cache", "{}")->status, 200);
  const std::string text = client.get("/metrics")->body;
  for (const char* line : {
           "vllm:generation_tokens_total{model_name=\"m\"} 7\n",
           "vllm:prompt_tokens_total{model_name=\"m\"} 4\n",
           "vllm:prefix_cache_queries_total{model_name=\"m\"} 4\n",
           "vllm:prefix_cache_hits_total{model_name=\"m\"} 1\n",
           "vllm:num_requests_running{model_name=\"m\"} 0\n",
           "millrace_mock:cache_flushes_total{model_name=\"m\"} 2\n",
       }) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  EXPECT_EQ(parsed(client.get("/v1/models")->body).at("data").at(0).at("id"), "m");
}

TEST(MockServer, NamesTheOptionThatIsWrong) {
  const std::vector<std::pair<MockOptions, std::string>> cases = {
      {{.itl = {.mean = milliseconds(-1)}}, "itl"},
      {{.ttft = {.mean = milliseconds(1), .jitter = 1.5}}, "ttft"},
      {{.tokens_per_chunk = 0}, "tokens_per_chunk"},
      {{.num_threads = 0}, "num_threads"},
      {{.max_concurrency = 0}, "max_concurrency"},
      {{.output_share = 1.5}, "output_share"},
      {{.breaks_every = 0}, "breaks_every"},
  };
  for (const auto& [options, where] : cases) {
    const auto server = MockServer::start(options);
    ASSERT_FALSE(server.ok());
    EXPECT_EQ(server.error().where, where);
  }
  EXPECT_FALSE(MockServer::start({.address = "nonsense"}).ok());
}

}  // namespace
}  // namespace millrace::bench
