#include <gtest/gtest.h>

#include <thread>

#include "loadgen/mock/mock_tokenizer.h"
#include "loadgen/mock_server.h"
#include "loadgen/scripted_server.h"
#include "loadgen/server_probe.h"

namespace millrace::bench {
namespace {

std::shared_ptr<const TokenCodec> make(const Target& target) {
  auto codec = make_server_codec(target);
  EXPECT_TRUE(codec.ok()) << (codec ? "" : codec.error().message);
  return codec ? *codec : nullptr;
}

TEST(ServerCodec, EncodesAndDecodesAsTheServerDoes) {
  const auto server = *MockServer::start({.api_key = "k"});
  Target target = target_of(server->url());
  EXPECT_FALSE(make_server_codec(target).ok());
  target.api_key = "k";
  const auto codec = make(target);
  ASSERT_NE(codec, nullptr);
  const std::vector<TokenId> ids = {5, 0, 99999};
  EXPECT_EQ(*codec->decode(ids), " w5 w0 w99999");
  EXPECT_EQ(*codec->encode(" w5 w0 w99999"), ids);
  EXPECT_EQ(codec->num_added_tokens(), 0u);
  const std::vector<TokenId> impossible = {-1};
  EXPECT_FALSE(codec->decode(impossible).ok());
}

TEST(ServerCodec, ReservesWhatItHasNotSeen) {
  const auto server = *MockServer::start({});
  const auto codec = make(target_of(server->url()));
  ASSERT_NE(codec, nullptr);
  size_t num_free = 0;
  for (size_t id = 0; id < codec->vocab_size(); ++id) {
    num_free += codec->is_reserved(static_cast<TokenId>(id)) ? 0 : 1;
  }
  EXPECT_GT(num_free, 1000u);
  EXPECT_LE(codec->vocab_size(), static_cast<size_t>(kMockVocabSize));
  EXPECT_TRUE(codec->is_reserved(-1));
  EXPECT_TRUE(codec->is_reserved(static_cast<TokenId>(codec->vocab_size())));
  // The same server, the same vocabulary: random prompts depend on it.
  EXPECT_EQ(make(target_of(server->url()))->vocab_size(), codec->vocab_size());
}

TEST(ServerCodec, MayBeUsedByManyThreads) {
  const auto server = *MockServer::start({.num_threads = 2});
  const auto codec = make(target_of(server->url()));
  ASSERT_NE(codec, nullptr);
  std::vector<std::thread> threads;
  for (TokenId i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (TokenId k = 0; k < 50; ++k) {
        const std::vector<TokenId> ids = {i, k};
        EXPECT_EQ(*codec->encode(*codec->decode(ids)), ids);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// As its server words it: another name for the text, an error for nothing.
TEST(ServerCodec, SpeaksToLlamaServer) {
  ScriptedServer server;
  server.on("POST /tokenize", [](const http::Request& request) {
    const json::value body = *parse_json(request.body);
    json::array tokens;
    const json::value* content = body.as_object().if_contains("content");
    if (content != nullptr) {
      if (body.at("add_special").as_bool()) tokens.push_back(1);
      for (const TokenId id : encode_mock_text(std::string(content->as_string()))) {
        tokens.push_back(id);
      }
    }
    return http::json_response(200, to_json_text(json::object{{"tokens", tokens}}));
  });
  server.on("POST /detokenize", 200, R"({"content":" w7"})");
  const auto codec = make(server.target());
  ASSERT_NE(codec, nullptr);
  EXPECT_EQ(codec->num_added_tokens(), 1u);
  EXPECT_EQ(*codec->encode(" w7 w8"), (std::vector<TokenId>{7, 8}));
  const std::vector<TokenId> seven = {7};
  EXPECT_EQ(*codec->decode(seven), " w7");
}

TEST(ServerCodec, SaysWhatIsMissing) {
  ScriptedServer server;
  const auto none = make_server_codec(server.target());
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(none.error().where, "/tokenize");
  EXPECT_EQ(none.error().message, "the server's tokenizer cannot be used: HTTP 404: Not Found");
  for (const char* nonsense :
       {R"({"tokens":[-1]})",
        R"({"tokens":["a"]})",
        R"({"tokens":[4000000000]})",
        "[]",
        "{}",
        R"({"tokens":{}})",
        R"({"tokens":[]})",
        R"({"tokens":[100000000]})",
        "nonsense"}) {
    server.on("POST /tokenize", 200, nonsense);
    EXPECT_FALSE(make_server_codec(server.target()).ok()) << nonsense;
  }
  server.on("POST /tokenize", 200, R"({"tokens":[3]})");
  const auto half = make_server_codec(server.target());
  ASSERT_FALSE(half.ok());
  EXPECT_EQ(half.error().where, "/detokenize");
}

}  // namespace
}  // namespace millrace::bench
