#include "server/protocol/chat_writer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "server/protocol/answer_fixtures.h"

namespace millrace {
namespace {

GenerationRequest chat_request() {
  return request_of(Api::kChat, {ChatInput{}});
}

const std::string kChunkHead =
    R"(data: {"id":"x-1","object":"chat.completion.chunk","created":1700000000,"model":"m",)"
    R"("system_fingerprint":"fp","choices":[{"index":)";

TEST(ChatWriter, WordsAWholeAnswerAsOpenAiDoes) {
  EXPECT_EQ(
      whole_of(chat_request(), result_of("a\n\"b\"", tokens_of("a\n\"b\""))),
      R"({"id":"x-1","object":"chat.completion","created":1700000000,"model":"m",)"
      R"("system_fingerprint":"fp","choices":[{"index":0,"message":{"role":"assistant",)"
      R"("content":"a\n\"b\"","refusal":null},"logprobs":null,"finish_reason":"stop",)"
      R"("stop_reason":null}],"usage":{"prompt_tokens":2,"completion_tokens":5,"total_tokens":7,)"
      R"("prompt_tokens_details":{"cached_tokens":1},)"
      R"("completion_tokens_details":{"reasoning_tokens":0}}})"
  );
}

TEST(ChatWriter, StreamsTheRoleThenTheContentThenTheFinishReason) {
  GenerationRequest request = chat_request();
  request.include_usage = true;
  const Tokenizer tokenizer = make_byte_tokenizer();
  const auto writer = make_answer_writer(request, tokenizer, test_identity());
  const PromptResult prompt = prompt_result({'H', 'i'});
  const Ending ending = {.finish_reason = "stop", .stop_reason = std::string("###")};
  std::string out;
  writer->begin({&prompt, 1}, out);
  writer->delta({.choice = 0, .text = "a\n", .tokens = tokens_of("a\n")}, {}, out);
  writer->delta({.choice = 0, .text = "", .tokens = tokens_of("\xC3")}, {}, out);
  writer->delta({.choice = 0, .text = "b", .tokens = {}, .ending = &ending}, {}, out);
  writer->end({.num_prompt_tokens = 2, .num_cached_tokens = 0, .num_output_tokens = 4}, out);
  EXPECT_EQ(
      out,
      kChunkHead +
          R"(0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],)"
          R"("usage":null})"
          "\n\n" +
          kChunkHead +
          R"(0,"delta":{"content":"a\n"},"logprobs":null,"finish_reason":null}],"usage":null})"
          "\n\n" +
          kChunkHead +
          R"(0,"delta":{"content":"b"},"logprobs":null,"finish_reason":null}],"usage":null})"
          "\n\n" +
          kChunkHead +
          R"(0,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":"###"}],)"
          R"("usage":null})"
          "\n\n"
          R"(data: {"id":"x-1","object":"chat.completion.chunk","created":1700000000,)"
          R"("model":"m","system_fingerprint":"fp","choices":[],"usage":{"prompt_tokens":2,)"
          R"("completion_tokens":4,"total_tokens":6,"prompt_tokens_details":{"cached_tokens":0},)"
          R"("completion_tokens_details":{"reasoning_tokens":0}}})"
          "\n\n"
          "data: [DONE]\n\n"
  );
}

TEST(ChatWriter, EachChoiceOfAStreamBeginsWithTheRole) {
  GenerationRequest request = chat_request();
  request.fields.sampling.n = 3;
  const Tokenizer tokenizer = make_byte_tokenizer();
  std::string out;
  make_answer_writer(request, tokenizer, test_identity())->begin({}, out);
  const std::vector<std::string> events = events_of(out);
  ASSERT_EQ(events.size(), 3U);
  for (size_t i = 0; i < events.size(); ++i) {
    const json::value choice = parsed(events[i]).at("choices").at(0);
    EXPECT_EQ(choice.at("index").as_int64(), static_cast<int64_t>(i));
    EXPECT_EQ(choice.at("delta"), parsed(R"({"role":"assistant","content":""})"));
    EXPECT_FALSE(parsed(events[i]).as_object().contains("usage"));
  }
}

TEST(ChatWriter, WritesLogprobsWithTheExactBytes) {
  GenerationRequest request = chat_request();
  request.fields.sampling.logprobs = 1;
  const GenerationResult result = result_of(
      "a\xF0",
      {logged_token('a', {{'a', -2.0F}, {'b', -0.5F}}), logged_token(0xF0, {{0xF0, -0.5F}})}
  );
  const std::string text = whole_of(request, result);
  EXPECT_NE(
      text.find(
          R"("logprobs":{"content":[{"token":"a","logprob":-2,"bytes":[97],"top_logprobs":[)"
          R"({"token":"b","logprob":-0.5,"bytes":[98]}]},{"token":"\\xf0","logprob":-0.5,)"
          R"("bytes":[240],"top_logprobs":[{"token":"\\xf0","logprob":-0.5,"bytes":[240]}]}],)"
          R"("refusal":null})"
      ),
      std::string::npos
  ) << text;
}

TEST(ChatWriter, WithoutTopLogprobsTheChosenTokenIsStillTold) {
  GenerationRequest request = chat_request();
  request.fields.sampling.logprobs = 0;
  request.return_tokens_as_token_ids = true;
  const std::string text = whole_of(request, result_of("a", {logged_token('a', {{'a', -2.0F}})}));
  EXPECT_EQ(
      parsed(text).at("choices").at(0).at("logprobs"),
      parsed(R"({"content":[{"token":"token_id:97","logprob":-2,"bytes":[97],"top_logprobs":[]}],)"
             R"("refusal":null})")
  );
}

TEST(ChatWriter, TheBytesOfEachTokenAreExact) {
  GenerationRequest request = chat_request();
  request.fields.sampling.logprobs = 0;
  std::vector<SampledToken> tokens;
  for (TokenId id = 0; id < 258; ++id) tokens.push_back(logged_token(id, {{id, -1.0F}}));
  const json::value answer = parsed(whole_of(request, result_of("", tokens)));
  const json::array& content = answer.at("choices").at(0).at("logprobs").at("content").as_array();
  ASSERT_EQ(content.size(), 258U);
  const Tokenizer tokenizer = make_byte_tokenizer();
  for (TokenId id = 0; id < 258; ++id) {
    std::string bytes;
    for (const json::value& byte : content[static_cast<size_t>(id)].at("bytes").as_array()) {
      bytes += static_cast<char>(byte.as_int64());
    }
    EXPECT_EQ(bytes, tokenizer.token_bytes(id)) << id;
    const std::string_view name = content[static_cast<size_t>(id)].at("token").as_string();
    if (id < 128) {
      EXPECT_EQ(name, bytes) << id;
    } else if (id < 256) {
      EXPECT_EQ(name, fmt::format("\\x{:02x}", id)) << id;
    }
  }
  EXPECT_EQ(content[kByteTokenizerEnd].at("token").as_string(), "<|end|>");
}

TEST(ChatWriter, TokensOfTheLastDeltaAreToldOnce) {
  GenerationRequest request = chat_request();
  request.fields.sampling.logprobs = 0;
  request.return_token_ids = true;
  const Tokenizer tokenizer = make_byte_tokenizer();
  const PromptResult prompt = prompt_result({'H', 'i'});
  const Ending ending;
  const std::vector<SampledToken> tokens = {logged_token('b', {{'b', -1.0F}})};
  for (const std::string_view text : {"b", ""}) {
    const auto writer = make_answer_writer(request, tokenizer, test_identity());
    std::string out;
    writer->begin({&prompt, 1}, out);
    writer->delta({.choice = 0, .text = text, .tokens = tokens, .ending = &ending}, {}, out);
    size_t num_ids = 0;
    size_t num_logprobs = 0;
    size_t num_endings = 0;
    for (const std::string& event : events_of(out)) {
      const json::value choice = parsed(event).at("choices").at(0);
      if (const json::value* ids = choice.as_object().if_contains("token_ids")) {
        num_ids += ids->as_array().size();
      }
      if (!choice.at("logprobs").is_null()) {
        num_logprobs += choice.at("logprobs").at("content").as_array().size();
      }
      if (!choice.at("finish_reason").is_null()) {
        ++num_endings;
        EXPECT_TRUE(choice.at("delta").as_object().empty());
      }
    }
    EXPECT_EQ(num_ids, 1U) << text;
    EXPECT_EQ(num_logprobs, 1U) << text;
    EXPECT_EQ(num_endings, 1U) << text;
    EXPECT_EQ(parsed(events_of(out).at(0)).at("prompt_token_ids"), parsed("[72,105]"));
  }
}

TEST(ChatWriter, PutsPromptFieldsBesideTheChoices) {
  GenerationRequest request = chat_request();
  request.return_token_ids = true;
  request.fields.sampling.prompt_logprobs = 0;
  GenerationResult result = result_of("a", tokens_of("a"));
  result.prompts[0].prompt_logprobs = {{{'i', -1.0F}}};
  const json::value answer = parsed(whole_of(request, result));
  EXPECT_EQ(answer.at("prompt_token_ids"), parsed("[72,105]"));
  EXPECT_EQ(
      answer.at("prompt_logprobs"),
      parsed(R"([null,{"105":{"logprob":-1,"rank":null,"decoded_token":"i"}}])")
  );
  EXPECT_EQ(answer.at("choices").at(0).at("token_ids"), parsed("[97]"));
}

TEST(ChatWriter, TheLastChunkOfAChoiceTellsItsTimings) {
  GenerationRequest request = chat_request();
  request.return_timings = true;
  const Tokenizer tokenizer = make_byte_tokenizer();
  const auto writer = make_answer_writer(request, tokenizer, test_identity());
  const Ending ending;
  const SequenceTimings timings = test_timings();
  std::string out;
  writer->delta({.choice = 0, .text = "a", .tokens = {}}, {}, out);
  writer->delta(
      {.choice = 0, .text = "", .tokens = {}, .ending = &ending, .timings = &timings}, {}, out
  );
  const std::vector<std::string> events = events_of(out);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_FALSE(parsed(events[0]).as_object().contains("timings"));
  EXPECT_EQ(parsed(events[1]).at("timings").at("decode_ms"), json::value(8));
}

TEST(AppendFailure, IsAnErrorEventAndTheEndOfTheStream) {
  std::string out;
  append_failure(R"({"error":{"message":"m"}})", out);
  EXPECT_EQ(out, "data: {\"error\":{\"message\":\"m\"}}\n\ndata: [DONE]\n\n");
  out.clear();
  append_failure("{\n\"error\":\r\n\n1}", out);
  EXPECT_EQ(events_of(out).size(), 2U);
  EXPECT_EQ(parsed(events_of(out).at(0)), parsed(R"({"error":1})"));
}

}  // namespace
}  // namespace millrace
