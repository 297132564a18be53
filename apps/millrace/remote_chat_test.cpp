#include "remote_chat.h"

#include <gmock/gmock.h>

#include <mutex>
#include <vector>

#include "http/server.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kModels = R"({"object":"list","data":[{"id":"first"},{"id":"second"}]})";

// A server that answers each chat with `events`, which end it or not.
class ChatServer {
 public:
  explicit ChatServer(std::string events, bool is_held = false)
      : events_(std::move(events)), is_held_(is_held) {
    http::HttpServerOptions options;
    options.addresses = {"127.0.0.1:0"};
    EXPECT_TRUE(options.router.add({.method = "GET", .pattern = "/v1/models", .handler = models()})
    );
    EXPECT_TRUE(options.router
                    .add({.method = "POST", .pattern = "/v1/chat/completions", .handler = chat()})
                    .ok());
    Result<std::unique_ptr<http::HttpServer>> server = http::HttpServer::start(std::move(options));
    EXPECT_TRUE(server.ok());
    server_ = *std::move(server);
  }
  ~ChatServer() {
    held_.clear();
    server_.reset();
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(*server_->port()); }
  std::string last_body() {
    const std::lock_guard lock(mutex_);
    return last_body_;
  }

 private:
  http::Handler models() {
    return [](const std::shared_ptr<http::Exchange>& exchange) {
      const bool is_allowed = exchange->request().header("authorization") != "Bearer wrong";
      exchange->respond(
          is_allowed ? http::json_response(200, kModels)
                     : http::json_response(401, R"({"error":{"message":"no such key"}})")
      );
    };
  }

  http::Handler chat() {
    return [this](const std::shared_ptr<http::Exchange>& exchange) {
      const std::lock_guard lock(mutex_);
      last_body_ = exchange->request().body;
      http::Response head;
      head.headers = {{"content-type", "text/event-stream"}};
      head.body = events_;
      exchange->begin_stream(std::move(head));
      if (is_held_) {
        held_.push_back(exchange);
      } else {
        exchange->finish();
      }
    };
  }

  std::string events_;
  bool is_held_;
  std::mutex mutex_;  // guards what follows
  std::string last_body_;
  std::vector<std::shared_ptr<http::Exchange>> held_;
  std::unique_ptr<http::HttpServer> server_;
};

std::string delta(const std::string& text) {
  return R"(data: {"choices":[{"index":0,"delta":{"content":")" + text + "\"}}]}\n\n";
}

const std::string kEnd =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4}}\n\n"
    "data: [DONE]\n\n";

json::array hello() {
  return {{{"role", "user"}, {"content", "Hello"}}};
}

// The answer, with its text.
Result<ChatAnswer> ask(RemoteChat& chat, std::string& text, const std::stop_token& stop = {}) {
  const auto on_text = [&](std::string_view piece) {
    text += piece;
    return true;
  };
  return chat.answer(hello(), on_text, stop);
}

std::string error_of(const std::string& events) {
  ChatServer server(events);
  auto chat = RemoteChat::connect({.url = server.url()});
  std::string text;
  const Result<ChatAnswer> answer = ask(**chat, text);
  return answer ? "" : answer.error().message;
}

TEST(RemoteChat, StreamsAnAnswer) {
  ChatServer server(delta("Hel") + ": a comment\n\n" + delta("lo \\u00e9") + kEnd);
  for (const char* path : {"", "/", "/v1", "/v1/"}) {
    auto chat = RemoteChat::connect({.url = server.url() + path, .fields = {{"top_k", 3}}});
    ASSERT_TRUE(chat.ok()) << chat.error().message;
    EXPECT_EQ((*chat)->model_name(), "first");
    std::string text;
    const Result<ChatAnswer> answer = ask(**chat, text);
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_EQ(text, "Hello é");
    EXPECT_EQ(answer->finish_reason, "length");
    EXPECT_EQ(answer->num_prompt_tokens, 9);
    EXPECT_EQ(answer->num_output_tokens, 4);
  }
  const Result<json::value> body = parse_json(server.last_body());
  EXPECT_EQ(body->at("model"), "first");
  EXPECT_EQ(body->at("top_k"), 3);
  EXPECT_EQ(body->at("stream"), true);
  EXPECT_EQ(body->at("messages"), hello());
  EXPECT_EQ(body->at("stream_options").at("include_usage"), true);
}

TEST(RemoteChat, CountsChunksWhereTheServerDoesNotCount) {
  ChatServer server(delta("a") + delta("b") + "data: [DONE]\n\n");
  auto chat = RemoteChat::connect({.url = server.url(), .model_name = "mine"});
  std::string text;
  const Result<ChatAnswer> answer = ask(**chat, text);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->num_output_tokens, 2);
  EXPECT_FALSE(answer->num_prompt_tokens);
  EXPECT_THAT(server.last_body(), HasSubstr("\"mine\""));
}

TEST(RemoteChat, TellsAnErrorInTheMiddleOfAStream) {
  EXPECT_EQ(error_of(delta("a") + "data: {\"error\":{\"message\":\"it broke\"}}\n\n"), "it broke");
  EXPECT_EQ(error_of("data: {\"error\":\"plain\"}\n\n"), "plain");
  EXPECT_EQ(error_of(delta("a")), "the answer broke off");
  EXPECT_THAT(error_of("data: {\"choices\":\n\n"), HasSubstr("cannot be read"));
  EXPECT_EQ(error_of(""), "the answer broke off");
}

TEST(RemoteChat, TakesNoOffenceAtOddChunks) {
  const std::string odd =
      "data: 5\n\ndata: []\n\ndata: {}\n\ndata: {\"choices\":[5]}\n\ndata: {\"choices\":{}}\n\n"
      "data: "
      "{\"choices\":[{\"delta\":{\"content\":null}}],\"usage\":{\"prompt_tokens\":\"x\"}}\n\n";
  EXPECT_EQ(error_of(odd + delta("a") + kEnd), "");
}

TEST(RemoteChat, NamesTheServerThatRefuses) {
  ChatServer server(kEnd);
  const auto refused = RemoteChat::connect({.url = server.url(), .api_key = "wrong"});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, server.url() + ": no such key (HTTP 401)");
  const auto malformed = RemoteChat::connect({.url = "localhost:8000"});
  ASSERT_FALSE(malformed.ok());
  EXPECT_EQ(malformed.error().where, "--url");
  const auto absent = RemoteChat::connect({.url = "unix:/no/such/socket"});
  ASSERT_FALSE(absent.ok());
  EXPECT_THAT(absent.error().message, HasSubstr("unix:/no/such/socket"));
}

TEST(RemoteChat, StopsAtOnceAndServesTheNextTurn) {
  ChatServer server(delta("so far"), true);
  auto chat = RemoteChat::connect({.url = server.url()});
  for (int i = 0; i < 3; ++i) {
    std::stop_source source;
    std::string text;
    const auto on_text = [&](std::string_view piece) {
      text += piece;
      source.request_stop();
      return true;
    };
    const Result<ChatAnswer> answer = (*chat)->answer(hello(), on_text, source.get_token());
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_EQ(text, "so far");
    EXPECT_EQ(answer->finish_reason, "");
  }
}

TEST(RemoteChat, ACancellationThatComesTooLateHarmsNoLaterTurn) {
  ChatServer server(delta("a") + kEnd);
  auto chat = RemoteChat::connect({.url = server.url()});
  for (int i = 0; i < 3; ++i) {
    std::stop_source source;
    const auto on_text = [&](std::string_view) {
      source.request_stop();  // the rest of the answer has come already
      return true;
    };
    ASSERT_TRUE((*chat)->answer(hello(), on_text, source.get_token()).ok());
    std::string text;
    const Result<ChatAnswer> answer = ask(**chat, text);
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_EQ(text, "a");
    EXPECT_EQ(answer->finish_reason, "length");
  }
}

}  // namespace
}  // namespace millrace
