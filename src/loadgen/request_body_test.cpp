#include "loadgen/request_body.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace millrace::bench {
namespace {

Target target(Protocol protocol) {
  Target target{
      .url = {.address = http::TcpAddress{"localhost", 8000}},
      .protocol = protocol,
      .model = std::string("m"),
  };
  if (protocol == Protocol::kChat) target.endpoint = "/v1/chat/completions";
  if (protocol == Protocol::kGenerate) target.endpoint = "/generate";
  return target;
}

json::value body(const Target& target, const PlannedPrompt& prompt, bool deltas = true) {
  const Result<RequestWriter> writer = RequestWriter::make(target, deltas);
  EXPECT_TRUE(writer.ok());
  Conversation conversation(target.protocol);
  EXPECT_TRUE(conversation.add_prompt(prompt).ok());
  return json::parse(writer->body(conversation, 16));
}

TEST(RequestBody, WordsACompletion) {
  EXPECT_EQ(body(target(Protocol::kCompletions), "say \"hi\"\n"), json::parse(R"({
    "model": "m", "prompt": "say \"hi\"\n", "max_tokens": 16, "min_tokens": 16, "ignore_eos": true,
    "temperature": 0, "stream": true,
    "stream_options": {"include_usage": true, "continuous_usage_stats": true}})"));
  const std::vector<TokenId> ids = {1, 20, 300};
  EXPECT_EQ(body(target(Protocol::kCompletions), ids).at("prompt"), json::parse("[1,20,300]"));
}

TEST(RequestBody, LeavesOutWhatTheServerRefuses) {
  const json::value words = body(target(Protocol::kCompletions), "x", false);
  EXPECT_EQ(words.at("stream_options"), json::parse(R"({"include_usage": true})"));
  Target whole = target(Protocol::kChat);
  whole.is_streamed = false;
  whole.sampling = {.temperature = {}, .top_p = 0.5, .top_k = 3, .ignores_eos = false};
  EXPECT_EQ(body(whole, "x"), json::parse(R"({
    "model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 16, "top_p": 0.5,
    "top_k": 3, "stream": false})"));
}

TEST(RequestBody, WordsGenerate) {
  EXPECT_EQ(body(target(Protocol::kGenerate), "x"), json::parse(R"({
    "text": "x", "stream": true, "sampling_params": {"max_new_tokens": 16, "min_new_tokens": 16,
    "ignore_eos": true, "temperature": 0}})"));
  const std::vector<TokenId> ids = {1, 2};
  const json::value words = body(target(Protocol::kGenerate), ids);
  EXPECT_EQ(words.at("input_ids"), json::parse("[1,2]"));
  EXPECT_FALSE(words.as_object().contains("text"));
}

TEST(RequestBody, TheUsersFieldsWin) {
  Target changed = target(Protocol::kCompletions);
  changed.extra_body =
      json::parse(R"({"max_tokens": 5, "prompt": "mine", "stop": ["a"], "temperature": null,
                      "stream_options": {"continuous_usage_stats": false}})")
          .as_object();
  const json::value words = body(changed, "x");
  EXPECT_EQ(words.at("max_tokens"), 5);
  EXPECT_EQ(words.at("prompt"), "mine");
  EXPECT_TRUE(words.at("temperature").is_null());
  EXPECT_EQ(
      words.at("stream_options"),
      json::parse(R"({"include_usage": true, "continuous_usage_stats": false})")
  );
  changed = target(Protocol::kGenerate);
  changed.extra_body = json::parse(R"({"sampling_params": {"stop": "a"}})").as_object();
  EXPECT_EQ(body(changed, "x").at("sampling_params").at("max_new_tokens"), 16);
  EXPECT_EQ(body(changed, "x").at("sampling_params").at("stop"), "a");
}

TEST(RequestBody, AConversationGrowsByAnswersAndTurns) {
  Conversation chat(Protocol::kChat);
  ASSERT_TRUE(chat.add_prompt(std::vector<PlannedMessage>{{"system", "be\tbrief"}, {"user", "a"}}
  ).ok());
  chat.add_answer("b\"");
  ASSERT_TRUE(chat.add_prompt("c").ok());
  EXPECT_EQ(json::parse(chat.json()), json::parse(R"([{"role":"system","content":"be\tbrief"},
    {"role":"user","content":"a"}, {"role":"assistant","content":"b\""},
    {"role":"user","content":"c"}])"));
  Conversation text(Protocol::kCompletions);
  ASSERT_TRUE(text.add_prompt("a").ok());
  text.add_answer("b");
  ASSERT_TRUE(text.add_prompt("c").ok());
  EXPECT_EQ(text.json(), "\"abc\"");
}

TEST(RequestBody, RefusesTokenIdsWhereNoneCanBe) {
  const PlannedPrompt ids = std::vector<TokenId>{1};
  EXPECT_FALSE(Conversation(Protocol::kChat).add_prompt(ids).ok());
  Conversation text(Protocol::kCompletions);
  ASSERT_TRUE(text.add_prompt("a").ok());
  EXPECT_FALSE(text.add_prompt(ids).ok());
}

TEST(RequestBody, TheHeadHoldsTheUsersFields) {
  Target headed = target(Protocol::kCompletions);
  headed.url.path = "/proxy";
  headed.api_key = "secret";
  headed.headers = {{"X-Team", "a b"}, {"User-Agent", "mine"}};
  const Result<RequestWriter> writer = RequestWriter::make(headed, true);
  ASSERT_TRUE(writer.ok());
  Conversation conversation(headed.protocol);
  ASSERT_TRUE(conversation.add_prompt("x").ok());
  const std::string bytes = writer->write(conversation, 1);
  const std::string words = writer->body(conversation, 1);
  EXPECT_TRUE(bytes.starts_with("POST /proxy/v1/completions HTTP/1.1\r\nhost: localhost:8000\r\n"));
  EXPECT_NE(
      bytes.find("authorization: Bearer secret\r\nX-Team: a b\r\nUser-Agent: mine\r\n"),
      std::string::npos
  ) << bytes;
  EXPECT_EQ(bytes.find("millrace-bench"), std::string::npos) << "the user's own instead";
  EXPECT_TRUE(bytes.ends_with(fmt::format("content-length: {}\r\n\r\n{}", words.size(), words)));
}

TEST(RequestBody, RefusesHeadersThatWouldEndALineEarly) {
  for (const http::Header& header :
       {http::Header{"X", "a\r\nY: b"}, http::Header{"X Y", "a"}, http::Header{"", "a"}}) {
    Target headed = target(Protocol::kChat);
    headed.headers = {header};
    EXPECT_FALSE(RequestWriter::make(headed, true).ok()) << header.name;
  }
  Target wrong = target(Protocol::kChat);
  wrong.endpoint = "/a b";
  EXPECT_FALSE(RequestWriter::make(wrong, true).ok());
  wrong.endpoint = "v1/chat";
  EXPECT_FALSE(RequestWriter::make(wrong, true).ok());
}

}  // namespace
}  // namespace millrace::bench
