// Speculation in the scheduler: what is guessed, what it may take, and what is left of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sched/scheduler_driver.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

SchedulerConfig guessing() {
  SchedulerConfig config = roomy();
  config.max_logit_rows = 16;
  config.speculation =
      NgramSpeculation{.num_speculative_tokens = 4, .prompt_lookup_max = 3, .prompt_lookup_min = 1};
  return config;
}

Request request_of(std::vector<TokenId> prompt, int32_t max_tokens = 100) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.max_tokens = max_tokens;
  return request;
}

TEST(SchedulerDrafts, ComputesTheGuessesBesideTheLastToken) {
  SchedulerDriver driver(guessing());
  const uint64_t id = driver.add(request_of({1, 2, 3, 4, 5}));
  driver.texts[id] = {1, 2, 3, 4, 9, 2};
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 0, 5}));
  EXPECT_THAT(driver.drafts, ElementsAre(IsEmpty())) << "nothing is guessed where a prompt ends";
  // After 1 came 2 3 4 5: three of them are right, and 9 comes in their step.
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 5, 5}));
  EXPECT_THAT(driver.drafts, ElementsAre(ElementsAre(2, 3, 4, 5)));
  EXPECT_EQ(driver.num_logit_rows, 5);
  // 9 is new, and the next step begins where the wrong guess was computed.
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 9, 1}));
  const SpeculationStats stats = driver.scheduler().stats().speculation;
  EXPECT_EQ(stats.num_drafts, 1);
  EXPECT_EQ(stats.num_draft_tokens, 4);
  EXPECT_EQ(stats.num_accepted_tokens, 3);
  EXPECT_THAT(std::span(stats.num_accepted_per_position).first(4), ElementsAre(1, 1, 1, 0));
  EXPECT_EQ(driver.scheduler().stats().num_output_tokens, 6);
  EXPECT_EQ(driver.scheduler().stats().num_tokens_computed, 10) << "a wrong guess is no work done";
}

TEST(SchedulerDrafts, AreForEachChoiceOfItsOwn) {
  SchedulerDriver driver(guessing());
  Request request = request_of({1, 2, 3}, 8);
  request.sampling.n = 3;
  driver.add(request);
  const auto ends = driver.run();
  ASSERT_EQ(ends.at(0).size(), 3U);
  for (const FinishedEvent& end : ends.at(0)) EXPECT_EQ(end.timings.num_output_tokens, 8);
  EXPECT_GT(driver.scheduler().stats().speculation.num_accepted_tokens, 6);
}

TEST(SchedulerDrafts, NeverGoBeyondTheEnd) {
  for (int32_t max_tokens = 1; max_tokens < 14; ++max_tokens) {
    SchedulerDriver driver(guessing());
    driver.add(request_of({1, 2, 3}, max_tokens));
    EXPECT_EQ(driver.run().at(0)[0].timings.num_output_tokens, max_tokens);
  }
  SchedulerConfig config = guessing();
  config.max_model_len = 12;
  SchedulerDriver driver(config);
  driver.add(request_of({1, 2, 3}));
  EXPECT_EQ(driver.run().at(0)[0].timings.num_output_tokens, 9);
}

TEST(SchedulerDrafts, StopBeforeATokenThatEndsTheSequence) {
  SchedulerDriver driver(guessing());
  Request request = request_of({1, 5, 6, 1, 2, kEos, 3});
  request.sampling.stop_token_ids = {6};
  const uint64_t id = driver.add(request);
  driver.texts[id] = {1, 5, 6};
  driver.step();
  driver.step();
  EXPECT_THAT(driver.drafts, ElementsAre(ElementsAre(2))) << "after 2 came an end";
  driver.step();
  EXPECT_THAT(driver.drafts, ElementsAre(IsEmpty())) << "after 1 5 came 6, which ends it";
  ASSERT_EQ(driver.finished.size(), 1U);
  EXPECT_EQ(driver.finished[0].stop_token, 6);
  EXPECT_EQ(driver.finished[0].timings.num_output_tokens, 3);

  Request ignoring = request_of({1, 2, kEos, 3});
  ignoring.sampling.ignore_eos = true;
  const uint64_t other = driver.add(ignoring);
  driver.texts[other] = {1, 2, kEos, 3};
  driver.step();
  driver.step();
  EXPECT_THAT(driver.drafts, ElementsAre(ElementsAre(2, kEos, 3, 1)));
}

TEST(SchedulerDrafts, TakeWhatIsLeftOfTheStep) {
  SchedulerConfig config = guessing();
  SchedulerDriver driver(config);
  driver.add(request_of({9, 9, 9}));
  driver.add(request_of({9, 9, 9}));
  driver.step();
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 3, 5}, Line{1, 0, 3, 5}));
  driver.add(request_of(std::vector<TokenId>(11, 3)));  // leaves 3 of 16 tokens
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 8, 4}, Line{1, 0, 8, 1}, Line{2, 0, 0, 11}));

  config.max_logit_rows = 7;
  SchedulerDriver few_rows(config);
  few_rows.add(request_of({9, 9, 9}));
  few_rows.add(request_of({9, 9, 9}));
  few_rows.step();
  EXPECT_THAT(few_rows.step(), ElementsAre(Line{0, 0, 3, 5}, Line{1, 0, 3, 2}));
  EXPECT_EQ(few_rows.num_logit_rows, 7);

  config.long_prefill_token_threshold = 3;
  SchedulerDriver narrow(config);
  narrow.add(request_of({9, 9, 9}));
  narrow.step();
  EXPECT_THAT(narrow.step(), ElementsAre(Line{0, 0, 3, 3}));
}

// Blocks of 2; the drafts of the first would need the block that the second's next token needs.
TEST(SchedulerDrafts, PreemptNobodyAndHoldNobodyUp) {
  SchedulerConfig config = guessing();
  config.block_size = 2;
  config.num_blocks = 6;
  SchedulerDriver driver(config);
  driver.add(request_of({9, 9, 9}, 10));
  driver.add(request_of({8, 9, 9}, 10));
  driver.texts[0] = driver.texts[1] = {9, 7, 7, 7};
  driver.step();
  EXPECT_EQ(driver.scheduler().stats().num_blocks_free, 2);
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 3, 5}, Line{1, 0, 3, 1}))
      << "the first has two blocks more, the second what fits where it is";
  EXPECT_EQ(driver.scheduler().stats().num_blocks_free, 2) << "wrong guesses keep no blocks";
  EXPECT_EQ(driver.scheduler().stats().num_preemptions, 0);
}

TEST(SchedulerDrafts, TheSameRequestsWithDraftsPreemptNoMore) {
  SchedulerConfig config = guessing();
  config.block_size = 2;
  config.num_blocks = 20;
  config.max_num_batched_tokens = 64;
  const auto num_preemptions = [](const SchedulerConfig& with) {
    SchedulerDriver driver(with);
    for (int i = 0; i < 8; ++i) driver.add(request_of({9, 9, 9, 9}, 20));
    EXPECT_EQ(driver.run().size(), 8U);
    return driver.scheduler().stats().num_preemptions;
  };
  const int64_t with = num_preemptions(config);
  config.speculation = std::nullopt;
  EXPECT_LE(with, num_preemptions(config));
}

// Two prompts that begin alike; the first's answer is wrong guesses mostly. What the second finds
// of it is what was chosen.
TEST(SchedulerDrafts, NothingWrongGetsIntoThePrefixCache) {
  SchedulerConfig config = guessing();
  config.enable_prefix_caching = true;
  config.block_size = 2;
  SchedulerDriver driver(config);
  const uint64_t first = driver.add(request_of({1, 2, 3, 4, 1, 5}, 8));
  driver.texts[first] = {1, 2, 8, 1, 2, 3, 9, 1};
  driver.run();
  EXPECT_GT(driver.scheduler().stats().speculation.num_draft_tokens, 4);
  // Prompt and answer but for the last token, which nobody computed.
  driver.add(request_of({1, 2, 3, 4, 1, 5, 1, 2, 8, 1, 2, 3, 9, 1, 7}, 1));
  EXPECT_THAT(driver.step(), ElementsAre(Line{1, 0, 13, 2}));
  // As the text would have been if the guesses had been right.
  driver.add(request_of({1, 2, 3, 4, 1, 5, 1, 2, 3, 4, 1, 5, 7}, 1));
  EXPECT_THAT(driver.step(), ElementsAre(Line{2, 0, 8, 5}));
}

TEST(SchedulerDrafts, AnErrorEndsASequenceThatGuessed) {
  SchedulerDriver driver(guessing());
  const uint64_t id = driver.add(request_of({9, 9, 9}));
  driver.step();
  driver.errors[id] = Error{ErrorCode::kInternal, "not a number"};
  driver.step();
  ASSERT_EQ(driver.finished.size(), 1U);
  EXPECT_EQ(driver.finished[0].reason, FinishReason::kError);
  EXPECT_EQ(driver.scheduler().stats().num_blocks_free, 64);
}

TEST(SchedulerDrafts, EndWhereNothingIsRight) {
  SchedulerDriver driver(guessing());
  const uint64_t id = driver.add(request_of({1, 2, 3}, 60));
  // Each token came before, and never goes on as it did.
  std::vector<TokenId>& text = driver.texts[id];
  for (int32_t i = 0; i < 60; ++i) text.push_back(10 + (i * i + i / 7) % 5);
  int64_t num_steps = 0;
  for (; !driver.scheduler().is_idle(); ++num_steps) driver.step();
  const SpeculationStats stats = driver.scheduler().stats().speculation;
  EXPECT_LT(stats.num_drafts, num_steps) << "it went on guessing";
}

TEST(SchedulerDraftsDeathTest, RefusesMoreTokensThanWereGuessed) {
  SchedulerDriver driver(guessing());
  driver.add(request_of({1, 2, 3}));
  const StepPlan plan = driver.scheduler().plan(at(0));
  const std::vector<StepOutcome> outcomes{SampledTokens(2)};
  EXPECT_DEATH(driver.scheduler().commit(plan, outcomes, at(0)), "more than were guessed");
}

}  // namespace
}  // namespace millrace
