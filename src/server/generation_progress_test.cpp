// From events to what is new of each choice.
#include "server/generation_progress.h"

#include <gtest/gtest.h>

#include "server/byte_tokenizer.h"

namespace millrace {
namespace {

class GenerationProgressTest : public ::testing::Test {
 protected:
  // Two prompts with two choices each, unless a test says otherwise.
  GenerationProgressTest() {
    request_.prompts = {std::string("ab"), std::string("cd")};
    request_.max_tokens = 8;
    request_.fields.sampling.n = 2;
  }

  GenerationProgress make() {
    std::vector<EngineRequest> prompts(request_.prompts.size());
    for (EngineRequest& prompt : prompts) prompt.prompt = {'a', 'b'};
    return {tokenizer_, request_, prompts};
  }
  static TokenEvent token(int32_t choice, TokenId id) {
    TokenEvent event;
    event.choice = choice;
    event.token.id = id;
    return event;
  }
  static std::string push(
      GenerationProgress& progress, size_t prompt, int32_t choice, std::string_view text
  ) {
    std::string shown;
    for (const char byte : text) {
      TokenEvent event = token(choice, static_cast<unsigned char>(byte));
      if (auto news = progress.take_token(prompt, event)) {
        shown += news->text;
        progress.keep(*news);
      }
    }
    return shown;
  }
  static FinishedEvent end(int32_t choice, FinishReason reason) {
    FinishedEvent event;
    event.choice = choice;
    event.reason = reason;
    return event;
  }

  const Tokenizer tokenizer_ = make_byte_tokenizer();
  GenerationRequest request_;
};

TEST_F(GenerationProgressTest, KeepsTheChoicesOfEachPromptApart) {
  GenerationProgress progress = make();
  const std::string_view texts[] = {"one", "two", "three", "four"};
  for (int32_t i = 0; i < 4; ++i) {
    push(progress, static_cast<size_t>(i / 2), i % 2, texts[static_cast<size_t>(i)]);
  }
  for (int32_t i = 0; i < 4; ++i) {
    EXPECT_FALSE(progress.is_over());
    auto news =
        progress.take_end(static_cast<size_t>(i / 2), end(i % 2, FinishReason::kLength), false);
    ASSERT_TRUE(news);
    EXPECT_EQ(news->choice, i);
    progress.keep(*news);
  }
  EXPECT_TRUE(progress.is_over());
  const GenerationResult result = progress.take_result();
  ASSERT_EQ(result.prompts.size(), 2U);
  for (size_t i = 0; i < 4; ++i) {
    const ChoiceResult& choice = result.prompts[i / 2].choices.at(i % 2);
    EXPECT_EQ(choice.text, texts[i]);
    EXPECT_EQ(choice.tokens.size(), texts[i].size());
    EXPECT_EQ(choice.ending.finish_reason, "length");
  }
  EXPECT_EQ(result.usage.num_prompt_tokens, 4);
  EXPECT_EQ(result.usage.num_output_tokens, 15);
}

// Its ending waits for what the engine knows of it: cached tokens and times had been none.
TEST_F(GenerationProgressTest, AStopStringEndsTheTextBeforeTheEngineKnows) {
  request_.fields.stop = {"END"};
  GenerationProgress progress = make();
  EXPECT_EQ(push(progress, 0, 1, "xEN"), "x");  // it may still become one
  TokenEvent last = token(1, 'D');
  const auto news = progress.take_token(0, last);
  ASSERT_TRUE(news && !news->ending);
  EXPECT_TRUE(news->is_stopped_by_text);
  EXPECT_EQ(news->text, "");
  TokenEvent late = token(1, 'z');
  EXPECT_FALSE(progress.take_token(0, late));
  FinishedEvent cancelled = end(0, FinishReason::kCancelled);
  EXPECT_EQ(push(progress, 0, 0, "END"), "");
  cancelled.timings.num_cached_tokens = 2;
  const auto ended = progress.take_end(0, cancelled, false);
  ASSERT_TRUE(ended && ended->ending);
  EXPECT_EQ(ended->ending->finish_reason, "stop");
  EXPECT_EQ(std::get<std::string>(ended->ending->stop_reason), "END");
  EXPECT_EQ(progress.timings(0).num_cached_tokens, 2);
  EXPECT_EQ(progress.usage().num_output_tokens, 7);
}

// A stream said 0 until its end.
TEST_F(GenerationProgressTest, TheFirstTokenTellsWhatWasCached) {
  GenerationProgress progress = make();
  TokenEvent first = token(0, 'x');
  first.num_cached_tokens = 2;
  ASSERT_TRUE(progress.take_token(1, first));
  EXPECT_EQ(progress.usage().num_cached_tokens, 2);
  EXPECT_EQ(progress.prompts()[1].num_cached_tokens, 2);
  TokenEvent of_other_choice = token(1, 'x');
  of_other_choice.num_cached_tokens = 2;
  ASSERT_TRUE(progress.take_token(1, of_other_choice));
  ASSERT_TRUE(progress.take_token(1, first));
  FinishedEvent ended = end(0, FinishReason::kLength);
  ended.timings.num_cached_tokens = 2;
  ASSERT_TRUE(progress.take_end(1, ended, false));
  EXPECT_EQ(progress.usage().num_cached_tokens, 2);
  ASSERT_TRUE(progress.take_end(0, ended, false));
  EXPECT_EQ(progress.usage().num_cached_tokens, 4) << "no token came of that prompt";
}

TEST_F(GenerationProgressTest, AStopTokenIsPartOfTheTextWhereStopsAre) {
  TokenEvent last = token(0, '!');
  last.is_stop_token = true;
  EXPECT_EQ(make().take_token(0, last)->text, "");
  request_.fields.include_stop_str_in_output = true;
  GenerationProgress progress = make();
  EXPECT_EQ(progress.take_token(0, last)->text, "!");
}

TEST_F(GenerationProgressTest, OnlyTheClientsOwnWishEndsACancelledChoiceWell) {
  GenerationProgress progress = make();
  const auto aborted = progress.take_end(0, end(0, FinishReason::kCancelled), true);
  ASSERT_TRUE(aborted && aborted->ending);
  EXPECT_EQ(aborted->ending->finish_reason, "abort");
  const auto cancelled = progress.take_end(0, end(1, FinishReason::kCancelled), false);
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, ErrorCode::kCancelled);
  const auto late = progress.take_end(1, end(0, FinishReason::kDeadline), true);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kDeadlineExceeded);
}

TEST_F(GenerationProgressTest, EchoComesOnceAndFirst) {
  request_.fields.echo = true;
  GenerationProgress progress = make();
  EXPECT_EQ(progress.take_echo(3), "ab");
  EXPECT_EQ(progress.take_echo(3), "");
}

TEST_F(GenerationProgressTest, TokensKnowTheirPlaceWhereLogprobsAreAsked) {
  request_.fields.echo = true;
  request_.fields.sampling.logprobs = 0;
  GenerationProgress progress = make();
  EXPECT_EQ(progress.prompts()[0].text_offsets, (std::vector<int64_t>{0, 1}));
  push(progress, 0, 0, "\xC3\xA9x");
  const GenerationResult result = progress.take_result();
  EXPECT_EQ(result.prompts[0].choices[0].text_offsets, (std::vector<int64_t>{2, 2, 3}));
}

TEST_F(GenerationProgressTest, WithoutTokensToMakeNothingIsSaid) {
  request_.max_tokens = 0;
  GenerationProgress progress = make();
  EXPECT_EQ(push(progress, 0, 0, "x"), "");
  const auto news = progress.take_end(0, end(0, FinishReason::kStop), false);
  ASSERT_TRUE(news && news->ending);
  EXPECT_EQ(news->ending->finish_reason, "length");
  EXPECT_EQ(progress.usage().num_output_tokens, 0);
}

TEST_F(GenerationProgressTest, WaitsForTheLogprobsOfEveryPrompt) {
  GenerationProgress progress = make();
  PromptLogprobsEvent event;
  event.logprobs = {{{.id = 'b', .logprob = -1.0F}}};
  EXPECT_TRUE(progress.lacks_prompt_logprobs());
  PromptLogprobsEvent other = event;
  progress.take_prompt_logprobs(0, event);
  EXPECT_TRUE(progress.lacks_prompt_logprobs());
  progress.take_prompt_logprobs(1, other);
  EXPECT_FALSE(progress.lacks_prompt_logprobs());
}

}  // namespace
}  // namespace millrace
