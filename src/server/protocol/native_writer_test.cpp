#include "server/protocol/native_writer.h"

#include <gtest/gtest.h>

#include "server/protocol/answer_fixtures.h"

namespace millrace {
namespace {

GenerationRequest native_request() {
  return request_of(Api::kNative);
}

TEST(NativeWriter, WordsAWholeAnswerAsSglangDoes) {
  GenerationResult result = result_of("a\n", tokens_of("a\n\x02"));
  result.prompts[0].choices[0].timings = test_timings();
  EXPECT_EQ(
      whole_of(native_request(), result),
      R"({"text":"a\n","output_ids":[97,10,2],"meta_info":{"id":"x-1",)"
      R"("finish_reason":{"type":"stop","matched":2},"prompt_tokens":2,"completion_tokens":3,)"
      R"("cached_tokens":2,"e2e_latency":0.013}})"
  );
}

TEST(NativeWriter, AListIsAnsweredWithAListAndSoAreSeveralChoices) {
  GenerationRequest request = native_request();
  const GenerationResult result = result_of("a", tokens_of("a"));
  EXPECT_TRUE(parsed(whole_of(request, result)).is_object());
  request.is_prompt_list = true;
  EXPECT_EQ(parsed(whole_of(request, result)).as_array().size(), 1U);

  GenerationRequest several = native_request();
  several.fields.sampling.n = 2;
  GenerationResult both = result;
  both.prompts[0].choices.push_back(both.prompts[0].choices[0]);
  both.prompts[0].choices[1].text = "b";
  const json::value answer = parsed(whole_of(several, both));
  ASSERT_EQ(answer.as_array().size(), 2U);
  EXPECT_EQ(answer.at(1).at("text"), json::value("b"));
}

TEST(NativeWriter, SaysHowAChoiceEnded) {
  GenerationResult result = result_of("a", tokens_of("ab"));
  Ending& ending = result.prompts[0].choices[0].ending;
  const auto finish_reason = [&] {
    return parsed(whole_of(native_request(), result)).at("meta_info").at("finish_reason");
  };
  ending.stop_reason = TokenId{17};
  EXPECT_EQ(finish_reason(), parsed(R"({"type":"stop","matched":17})"));
  ending.stop_reason = std::string("#");
  EXPECT_EQ(finish_reason(), parsed(R"({"type":"stop","matched":"#"})"));
  ending = {.finish_reason = "length", .stop_reason = {}};
  EXPECT_EQ(finish_reason(), parsed(R"({"type":"length","length":2})"));
  ending = {.finish_reason = "abort", .stop_reason = {}};
  EXPECT_EQ(finish_reason(), parsed(R"({"type":"abort","message":"aborted on request"})"));
  ending = {};
  result.prompts[0].choices[0].tokens.clear();
  EXPECT_EQ(finish_reason(), parsed(R"({"type":"stop","matched":null})"));
}

TEST(NativeWriter, EachEventOfAStreamHasAllThatCameBefore) {
  GenerationRequest request = native_request();
  request.include_usage = true;  // not an option of this API
  const Tokenizer tokenizer = make_byte_tokenizer();
  const auto writer = make_answer_writer(request, tokenizer, test_identity());
  const PromptResult prompt = prompt_result({'H', 'i'});
  const Ending ending = {.finish_reason = "length", .stop_reason = {}};
  const Usage usage = {.num_prompt_tokens = 2, .num_cached_tokens = 1, .num_output_tokens = 9};
  std::string out;
  writer->begin({&prompt, 1}, out);
  writer->delta({.choice = 0, .text = "a", .tokens = tokens_of("a")}, usage, out);
  writer->delta({.choice = 0, .text = "\"b", .tokens = tokens_of("\"b")}, usage, out);
  writer->delta({.choice = 0, .text = "", .tokens = tokens_of("c"), .ending = &ending}, usage, out);
  writer->end(usage, out);
  EXPECT_EQ(
      out,
      R"(data: {"text":"a","output_ids":[97],"meta_info":{"id":"x-1","finish_reason":null,)"
      R"("prompt_tokens":2,"completion_tokens":1,"cached_tokens":1}})"
      "\n\n"
      R"(data: {"text":"a\"b","output_ids":[97,34,98],"meta_info":{"id":"x-1",)"
      R"("finish_reason":null,"prompt_tokens":2,"completion_tokens":3,"cached_tokens":1}})"
      "\n\n"
      R"(data: {"text":"a\"b","output_ids":[97,34,98,99],"meta_info":{"id":"x-1",)"
      R"("finish_reason":{"type":"length","length":4},"prompt_tokens":2,"completion_tokens":4,)"
      R"("cached_tokens":1}})"
      "\n\n"
      "data: [DONE]\n\n"
  );
}

TEST(NativeWriter, EventsOfABatchSayTheirIndex) {
  GenerationRequest request = request_of(Api::kNative, {"a", "b"});
  request.is_prompt_list = true;
  request.fields.sampling.n = 2;
  const Tokenizer tokenizer = make_byte_tokenizer();
  const auto writer = make_answer_writer(request, tokenizer, test_identity());
  const std::vector<PromptResult> prompts = {prompt_result({'a'}), prompt_result({'b', 'b'})};
  const SequenceTimings timings = test_timings();
  const Ending ending;
  std::string out;
  writer->begin(prompts, out);
  for (int32_t choice : {3, 0, 2, 1}) {
    writer->delta({.choice = choice, .text = "x", .tokens = tokens_of("x")}, {}, out);
  }
  writer->delta(
      {.choice = 2, .text = "", .tokens = {}, .ending = &ending, .timings = &timings}, {}, out
  );
  const std::vector<std::string> events = events_of(out);
  ASSERT_EQ(events.size(), 5U);
  const std::vector<int64_t> order = {3, 0, 2, 1, 2};
  for (size_t i = 0; i < events.size(); ++i) {
    const json::value event = parsed(events[i]);
    EXPECT_EQ(event.at("index").as_int64(), order[i]);
    EXPECT_EQ(event.at("meta_info").at("prompt_tokens").as_int64(), order[i] < 2 ? 1 : 2);
    // Of which prompt tokens were cached, only the timings tell.
    EXPECT_EQ(event.at("meta_info").as_object().contains("cached_tokens"), i == 4);
  }
}

TEST(NativeWriter, WritesLogprobsOfPromptAndOutput) {
  GenerationRequest request = native_request();
  request.fields.sampling.logprobs = 1;
  request.fields.sampling.prompt_logprobs = 1;
  GenerationResult result = result_of("a", {logged_token('a', {{'a', -2.0F}, {'b', -0.5F}})});
  result.prompts[0].prompt_logprobs = {{{'i', -1.0F}, {'o', -0.25F}}};
  const json::value meta = parsed(whole_of(request, result)).at("meta_info");
  EXPECT_EQ(meta.at("input_token_logprobs"), parsed("[[null,72,null],[-1,105,null]]"));
  EXPECT_EQ(meta.at("input_top_logprobs"), parsed("[null,[[-0.25,111,null]]]"));
  EXPECT_EQ(meta.at("output_token_logprobs"), parsed("[[-2,97,null]]"));
  EXPECT_EQ(meta.at("output_top_logprobs"), parsed("[[[-0.5,98,null]]]"));

  request.return_text_in_logprobs = true;
  const json::value with_text = parsed(whole_of(request, result)).at("meta_info");
  EXPECT_EQ(with_text.at("input_token_logprobs"), parsed(R"([[null,72,"H"],[-1,105,"i"]])"));
  EXPECT_EQ(with_text.at("output_top_logprobs"), parsed(R"([[[-0.5,98,"b"]]])"));
}

}  // namespace
}  // namespace millrace
