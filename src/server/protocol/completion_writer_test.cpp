#include "server/protocol/completion_writer.h"

#include <gtest/gtest.h>

#include <limits>

#include "server/protocol/answer_fixtures.h"

namespace millrace {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

GenerationRequest completion_request() {
  return request_of(Api::kCompletions);
}

// The one choice of a whole answer.
json::value choice_of(const GenerationRequest& request, const GenerationResult& result) {
  return parsed(whole_of(request, result)).at("choices").at(0);
}

TEST(CompletionWriter, WordsAWholeAnswerAsOpenAiDoes) {
  GenerationResult result = result_of("a\n\"b\"", tokens_of("a\n\"b\""));
  result.prompts[0].choices[0].ending = {.finish_reason = "length", .stop_reason = {}};
  EXPECT_EQ(
      whole_of(completion_request(), result),
      R"({"id":"x-1","object":"text_completion","created":1700000000,"model":"m",)"
      R"("system_fingerprint":"fp","choices":[{"index":0,"text":"a\n\"b\"","logprobs":null,)"
      R"("finish_reason":"length","stop_reason":null}],"usage":{"prompt_tokens":2,)"
      R"("completion_tokens":5,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":1},)"
      R"("completion_tokens_details":{"reasoning_tokens":0}}})"
  );
}

TEST(CompletionWriter, NumbersTheChoicesOfAllPromptsInOrder) {
  GenerationRequest request = request_of(Api::kCompletions, {"a", "b"});
  request.fields.sampling.n = 2;
  GenerationResult result;
  for (const std::string name : {"a", "b"}) {
    PromptResult prompt = prompt_result({name[0]});
    for (const std::string suffix : {"0", "1"}) {
      ChoiceResult choice;
      choice.text = name + suffix;
      prompt.choices.push_back(choice);
    }
    result.prompts.push_back(prompt);
  }
  const json::value answer = parsed(whole_of(request, result));
  const json::array& choices = answer.at("choices").as_array();
  ASSERT_EQ(choices.size(), 4U);
  const std::vector<std::string> texts = {"a0", "a1", "b0", "b1"};
  for (size_t i = 0; i < choices.size(); ++i) {
    EXPECT_EQ(choices[i].at("index").as_int64(), static_cast<int64_t>(i));
    EXPECT_EQ(choices[i].at("text").as_string(), texts[i]);
  }
}

TEST(CompletionWriter, SaysWhatStoppedAChoice) {
  GenerationResult result = result_of("a", tokens_of("a"));
  Ending& ending = result.prompts[0].choices[0].ending;
  EXPECT_TRUE(choice_of(completion_request(), result).at("stop_reason").is_null());
  ending.stop_reason = TokenId{17};
  EXPECT_EQ(choice_of(completion_request(), result).at("stop_reason"), json::value(17));
  ending.stop_reason = std::string("\"###\n");
  EXPECT_EQ(choice_of(completion_request(), result).at("stop_reason"), json::value("\"###\n"));
}

TEST(CompletionWriter, StreamsChunksWithTextAndEndsWithDone) {
  const GenerationRequest request = completion_request();
  const Tokenizer tokenizer = make_byte_tokenizer();
  const auto writer = make_answer_writer(request, tokenizer, test_identity());
  const PromptResult prompt = prompt_result({'H', 'i'});
  const Ending ending = {.finish_reason = "stop", .stop_reason = TokenId{5}};
  std::string out;
  writer->begin({&prompt, 1}, out);
  EXPECT_EQ(out, "");
  writer->delta({.choice = 0, .text = "a\n", .tokens = tokens_of("a\n")}, {}, out);
  writer->delta({.choice = 0, .text = "", .tokens = tokens_of("\xC3")}, {}, out);
  writer->delta({.choice = 0, .text = "b", .tokens = {}, .ending = &ending}, {}, out);
  writer->end({}, out);
  const std::string head =
      R"(data: {"id":"x-1","object":"text_completion","created":1700000000,"model":"m",)"
      R"("system_fingerprint":"fp","choices":[{"index":0,"text":")";
  EXPECT_EQ(
      out,
      head + R"(a\n","logprobs":null,"finish_reason":null}]})" + "\n\n" + head +
          R"(b","logprobs":null,"finish_reason":"stop","stop_reason":5}]})" + "\n\n" +
          "data: [DONE]\n\n"
  );
}

TEST(CompletionWriter, TellsTheUsageInOneExtraChunk) {
  GenerationRequest request = completion_request();
  request.include_usage = true;
  const Tokenizer tokenizer = make_byte_tokenizer();
  const auto writer = make_answer_writer(request, tokenizer, test_identity());
  const Ending ending;
  std::string out;
  writer->begin({}, out);
  writer->delta({.choice = 0, .text = "a", .tokens = {}}, {}, out);
  writer->delta({.choice = 0, .text = "", .tokens = {}, .ending = &ending}, {}, out);
  writer->end({.num_prompt_tokens = 2, .num_cached_tokens = 1, .num_output_tokens = 3}, out);
  const std::vector<std::string> events = events_of(out);
  ASSERT_EQ(events.size(), 4U);
  EXPECT_TRUE(parsed(events[0]).at("usage").is_null());
  EXPECT_TRUE(parsed(events[1]).at("usage").is_null());
  EXPECT_EQ(parsed(events[2]).at("choices").as_array().size(), 0U);
  EXPECT_EQ(
      json::serialize(parsed(events[2]).at("usage")),
      R"({"prompt_tokens":2,"completion_tokens":3,"total_tokens":5,)"
      R"("prompt_tokens_details":{"cached_tokens":1},)"
      R"("completion_tokens_details":{"reasoning_tokens":0}})"
  );
  EXPECT_EQ(events[3], "[DONE]");
}

TEST(CompletionWriter, TellsTheUsageSoFarInEachChunk) {
  GenerationRequest request = completion_request();
  request.include_usage = request.continuous_usage_stats = true;
  const Tokenizer tokenizer = make_byte_tokenizer();
  const auto writer = make_answer_writer(request, tokenizer, test_identity());
  std::string out;
  writer->begin({}, out);
  for (int64_t i = 1; i <= 3; ++i) {
    const Usage usage = {.num_prompt_tokens = 2, .num_cached_tokens = 0, .num_output_tokens = i};
    writer->delta({.choice = 0, .text = "a", .tokens = {}}, usage, out);
  }
  writer->end({.num_prompt_tokens = 2, .num_cached_tokens = 0, .num_output_tokens = 3}, out);
  const std::vector<std::string> events = events_of(out);
  ASSERT_EQ(events.size(), 5U);
  for (int64_t i = 1; i <= 3; ++i) {
    const json::value chunk = parsed(events[static_cast<size_t>(i - 1)]);
    EXPECT_EQ(chunk.at("usage").at("completion_tokens").as_int64(), i);
    EXPECT_EQ(chunk.at("usage").at("total_tokens").as_int64(), i + 2);
  }
}

TEST(CompletionWriter, WritesLogprobsOfTheChosenAndTheMostLikely) {
  GenerationRequest request = completion_request();
  request.fields.sampling.logprobs = 2;
  const GenerationResult result = result_of(
      "ab",
      {logged_token('a', {{'a', -0.1F}, {'b', -2.5F}}),
       logged_token('b', {{'b', -7.0F}, {'c', -0.5F}, {'d', -1.0F}}),
       logged_token('c', {{'c', kMinusInfinity}, {'d', -0.5F}})}
  );
  EXPECT_EQ(
      json::serialize(choice_of(request, result).at("logprobs").at("tokens")), R"(["a","b","c"])"
  );
  const std::string text = whole_of(request, result);
  EXPECT_NE(
      text.find(
          R"("logprobs":{"tokens":["a","b","c"],"token_logprobs":[-0.1,-7,-9999],)"
          R"("top_logprobs":[{"a":-0.1,"b":-2.5},{"c":-0.5,"d":-1,"b":-7},{"d":-0.5,"c":-9999}],)"
          R"("text_offset":[0,1,2]})"
      ),
      std::string::npos
  ) << text;
}

TEST(CompletionWriter, LogprobsOfZeroStillTellTheChosenToken) {
  GenerationRequest request = completion_request();
  request.fields.sampling.logprobs = 0;
  const GenerationResult result = result_of("a", {logged_token('a', {{'a', -0.5F}})});
  EXPECT_EQ(
      choice_of(request, result).at("logprobs"),
      parsed(R"({"tokens":["a"],"token_logprobs":[-0.5],"top_logprobs":[{"a":-0.5}],)"
             R"("text_offset":[0]})")
  );
}

TEST(CompletionWriter, NamesTokensThatAreNoTextByTheirBytes) {
  GenerationRequest request = completion_request();
  request.fields.sampling.logprobs = 2;
  // Two tokens of the same character, and one that no tokenizer knows.
  const GenerationResult result = result_of(
      "\xC3\xA9",
      {logged_token(0xC3, {{0xC3, -0.5F}, {0xC4, -1.0F}}),
       logged_token(0xA9, {{0xA9, -0.5F}}),
       logged_token(99'999, {{99'999, -1.0F}})}
  );
  const json::value logprobs = choice_of(request, result).at("logprobs");
  EXPECT_EQ(logprobs.at("tokens"), parsed(R"(["bytes:\\xc3","bytes:\\xa9",""])"));
  EXPECT_EQ(logprobs.at("top_logprobs").at(0), parsed(R"({"bytes:\\xc3":-0.5,"bytes:\\xc4":-1})"));

  request.return_tokens_as_token_ids = true;
  EXPECT_EQ(
      choice_of(request, result).at("logprobs").at("tokens"),
      parsed(R"(["token_id:195","token_id:169","token_id:99999"])")
  );
}

TEST(CompletionWriter, ATokenNameStandsOnceInTheTopLogprobs) {
  GenerationRequest request = completion_request();
  request.fields.sampling.logprobs = 3;
  // Ids that are no token all have the same name.
  const GenerationResult result =
      result_of("", {logged_token(900, {{900, -0.5F}, {901, -1.0F}, {'a', -2.0F}})});
  EXPECT_EQ(
      choice_of(request, result).at("logprobs").at("top_logprobs").at(0),
      parsed(R"({"":-0.5,"a":-2})")
  );
}

TEST(CompletionWriter, EchoedLogprobsBeginWithThoseOfThePrompt) {
  GenerationRequest request = completion_request();
  request.fields.echo = true;
  request.fields.sampling.logprobs = 1;
  request.fields.sampling.prompt_logprobs = 1;
  GenerationResult result = result_of("Hia", {logged_token('a', {{'a', -0.5F}})});
  result.prompts[0].num_echo_bytes = 2;
  result.prompts[0].text_offsets = {0, 1};
  result.prompts[0].choices[0].text_offsets = {2};
  result.prompts[0].prompt_logprobs = {{{'i', -3.0F}, {'o', -0.25F}}};
  const json::value expected =
      parsed(R"({"tokens":["H","i","a"],"token_logprobs":[null,-3,-0.5],)"
             R"("top_logprobs":[null,{"o":-0.25,"i":-3},{"a":-0.5}],"text_offset":[0,1,2]})");
  EXPECT_EQ(choice_of(request, result).at("logprobs"), expected);

  const Tokenizer tokenizer = make_byte_tokenizer();
  const auto writer = make_answer_writer(request, tokenizer, test_identity());
  const ChoiceResult& choice = result.prompts[0].choices[0];
  std::string out;
  writer->begin(result.prompts, out);
  const ChoiceDelta delta = {
      .text = choice.text, .tokens = choice.tokens, .text_offsets = choice.text_offsets};
  writer->delta(delta, {}, out);
  EXPECT_EQ(parsed(events_of(out).at(0)).at("choices").at(0).at("logprobs"), expected);
}

TEST(CompletionWriter, WritesPromptLogprobsWithTheRanksThatAreKnown) {
  GenerationRequest request = completion_request();
  request.fields.sampling.prompt_logprobs = 2;
  GenerationResult result = result_of("", {});
  result.prompts[0].prompt = {'H', 'i', 'j', 'k'};
  result.prompts[0].prompt_logprobs = {
      {{'i', -1.0F}, {'o', -0.25F}},                 // second best
      {{'j', -9.0F}, {'o', -0.25F}, {0xC3, -0.5F}},  // worse than the two best
      {{'k', -0.5F}, {'o', -0.5F}},                  // ties go to the lower id
  };
  const std::string text = whole_of(request, result);
  EXPECT_NE(
      text.find(R"("prompt_logprobs":[null,{"105":{"logprob":-1,"rank":2,"decoded_token":"i"},)"
                R"("111":{"logprob":-0.25,"rank":1,"decoded_token":"o"}},)"
                R"({"106":{"logprob":-9,"rank":null,"decoded_token":"j"},)"
                R"("111":{"logprob":-0.25,"rank":1,"decoded_token":"o"},)"
                R"("195":{"logprob":-0.5,"rank":2,"decoded_token":"\\xc3"}},)"
                R"({"107":{"logprob":-0.5,"rank":1,"decoded_token":"k"},)"
                R"("111":{"logprob":-0.5,"rank":2,"decoded_token":"o"}}])"),
      std::string::npos
  ) << text;
}

TEST(CompletionWriter, ReturnsTokenIdsWhereAsked) {
  GenerationRequest request = completion_request();
  request.return_token_ids = true;
  const json::value choice = choice_of(request, result_of("a", tokens_of("a\x02")));
  EXPECT_EQ(choice.at("prompt_token_ids"), parsed("[72,105]"));
  EXPECT_EQ(choice.at("token_ids"), parsed("[97,2]"));

  const Tokenizer tokenizer = make_byte_tokenizer();
  const auto writer = make_answer_writer(request, tokenizer, test_identity());
  const PromptResult prompt = prompt_result({'H', 'i'});
  std::string out;
  writer->begin({&prompt, 1}, out);
  writer->delta({.choice = 0, .text = "", .tokens = tokens_of("\xC3")}, {}, out);
  writer->delta({.choice = 0, .text = "\xC3\xA9", .tokens = tokens_of("\xA9")}, {}, out);
  const std::vector<std::string> events = events_of(out);
  ASSERT_EQ(events.size(), 2U);
  const json::value first = parsed(events[0]).at("choices").at(0);
  EXPECT_EQ(first.at("prompt_token_ids"), parsed("[72,105]"));
  EXPECT_EQ(first.at("token_ids"), parsed("[195]"));
  const json::value second = parsed(events[1]).at("choices").at(0);
  EXPECT_FALSE(second.as_object().contains("prompt_token_ids"));
  EXPECT_EQ(second.at("token_ids"), parsed("[169]"));
}

TEST(CompletionWriter, ReturnsTimingsBesideTheChoiceOrInEach) {
  GenerationRequest request = completion_request();
  request.return_timings = true;
  GenerationResult result = result_of("a", tokens_of("a"));
  result.prompts[0].choices[0].timings = test_timings();
  const json::value expected =
      parsed(R"({"queue_ms":1,"prefill_ms":4,"decode_ms":8,"num_preemptions":0,)"
             R"("num_recomputed_tokens":0,"cache_n":2,"prompt_n":1,)"
             R"("prompt_per_second":250,"predicted_n":5,"predicted_per_second":500})");
  EXPECT_EQ(parsed(whole_of(request, result)).at("timings"), expected);

  request.fields.sampling.n = 2;
  result.prompts[0].choices.push_back(result.prompts[0].choices[0]);
  const json::value answer = parsed(whole_of(request, result));
  EXPECT_FALSE(answer.as_object().contains("timings"));
  EXPECT_EQ(answer.at("choices").at(1).at("timings"), expected);
}

TEST(CompletionWriter, TimingsOfWhatNeverHappenedAreNull) {
  GenerationRequest request = completion_request();
  request.return_timings = true;
  const json::value timings = parsed(whole_of(request, result_of("", {}))).at("timings");
  for (const char* name :
       {"queue_ms", "prefill_ms", "decode_ms", "prompt_per_second", "predicted_per_second"}) {
    EXPECT_TRUE(timings.at(name).is_null()) << name;
  }
}

}  // namespace
}  // namespace millrace
