// Plans that are made while the step before them is in flight: what is certain, what is pending,
// and what becomes of sequences that end or lose their blocks meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "sched/scheduler_driver.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

SchedulerConfig caching() {
  SchedulerConfig config = roomy();  // blocks of 4
  config.enable_prefix_caching = true;
  config.num_hidden_slots = 8;
  return config;
}

Request request(std::vector<TokenId> prompt, int32_t max_tokens = 100) {
  Request request{.prompt = std::move(prompt)};
  request.sampling.max_tokens = max_tokens;
  return request;
}

std::vector<TokenId> count(int32_t n, TokenId from = 20) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < n; ++i) tokens.push_back(from + i);
  return tokens;
}

std::vector<Line> lines(const StepPlan& plan) {
  return SchedulerDriver::lines(plan);
}

TEST(SchedulerAhead, GoesOnBehindATokenThatNobodyKnows) {
  SchedulerDriver driver(roomy());
  driver.add(18, 3);
  const StepPlan first = driver.plan();
  const StepPlan second = driver.plan_behind(first);
  EXPECT_THAT(lines(first), ElementsAre(Line{0, 0, 0, 16}));
  EXPECT_THAT(lines(second), ElementsAre(Line{0, 0, 16, 2}));
  driver.commit(first);
  const StepPlan third = driver.plan_behind(second);
  EXPECT_THAT(lines(third), ElementsAre(Line{0, 0, 18, 1}));
  const Sequence& sequence = *third.scheduled[0].sequence;
  EXPECT_TRUE(sequence.is_pending(18));
  EXPECT_EQ(sequence.pending_row(), 0);
  EXPECT_THAT(sequence.output(), IsEmpty());
  EXPECT_EQ(sequence.num_tokens(), 19);
  driver.commit(second, 5);
  EXPECT_EQ(sequence.token(18), 5);
  EXPECT_FALSE(sequence.pending_row().has_value());
}

TEST(SchedulerAhead, NamesTheRowOfAPendingToken) {
  SchedulerConfig config = roomy();
  config.max_logit_rows = 8;
  SchedulerDriver driver(config);
  Request with_logprobs = request(count(3));
  with_logprobs.sampling.prompt_logprobs = 0;
  driver.add(with_logprobs);
  driver.add(2);
  const StepPlan first = driver.plan();
  EXPECT_EQ(first.num_logit_rows, 4);
  const StepPlan second = driver.plan_behind(first);
  EXPECT_EQ(second.scheduled[0].sequence->pending_row(), 2);
  EXPECT_EQ(second.scheduled[1].sequence->pending_row(), 3);
  driver.commit(first);
  driver.commit(second);
}

TEST(SchedulerAhead, PlansNothingBehindALastTokenThatIsCertainByCount) {
  SchedulerDriver driver(roomy());
  driver.add(4, 2);
  StepPlan first = driver.plan();
  const StepPlan last = driver.plan_behind(first);
  driver.commit(first);
  EXPECT_TRUE(driver.plan_behind(last).is_empty());
  EXPECT_FALSE(driver.scheduler().is_idle());
  driver.commit(last);
  ASSERT_EQ(driver.finished.size(), 1U);
  EXPECT_EQ(driver.finished[0].reason, FinishReason::kLength);
  EXPECT_EQ(driver.finished[0].timings.num_output_tokens, 2);
  EXPECT_TRUE(driver.scheduler().is_idle());
  EXPECT_EQ(driver.scheduler().stats().num_tokens_computed, 5);
}

TEST(SchedulerAhead, ASequenceStopsWhileItsNextStretchIsInFlight) {
  SchedulerDriver driver(caching());
  driver.add(request(count(7)));
  driver.add(request(count(3, 60)));
  const StepPlan first = driver.plan();
  const StepPlan second = driver.plan_behind(first);
  driver.tokens[0] = kEos;
  driver.commit(first);
  ASSERT_EQ(driver.finished.size(), 1U);
  EXPECT_EQ(driver.finished[0].stop_token, kEos);
  EXPECT_TRUE(second.scheduled[0].is_void());
  EXPECT_FALSE(second.scheduled[1].is_void());
  const StepPlan third = driver.plan_behind(second);
  EXPECT_THAT(lines(third), ElementsAre(Line{1, 0, 4, 1}));
  driver.commit(second);
  EXPECT_THAT(driver.finished, IsEmpty()) << "it ends once";
  driver.commit(third);
  EXPECT_EQ(driver.scheduler().stats().num_output_tokens, 1 + 3);
  EXPECT_EQ(driver.scheduler().stats().num_tokens_computed, 10 + 2)
      << "what is void counts nowhere";
}

TEST(SchedulerAhead, TheLastStretchInFlightMayBeVoid) {
  SchedulerDriver driver(roomy());
  driver.add(4);
  const StepPlan first = driver.plan();
  const StepPlan second = driver.plan_behind(first);
  driver.commit(first, kEos);
  EXPECT_FALSE(driver.scheduler().is_idle()) << "a step is in flight";
  EXPECT_TRUE(driver.plan_behind(second).is_empty());
  driver.commit(second);
  EXPECT_TRUE(driver.scheduler().is_idle());
  EXPECT_EQ(driver.scheduler().stats().num_blocks_free, 64);
}

// The K and V of what follows a stop token were computed, and nobody may find them.
TEST(SchedulerAhead, NobodyFindsWhatIsVoid) {
  SchedulerDriver driver(caching());
  driver.add(request(count(7)));
  const StepPlan first = driver.plan();
  const StepPlan second = driver.plan_behind(first);  // the eighth token fills a block
  driver.commit(first, kEos);
  driver.commit(second);
  std::vector<TokenId> next = count(7);
  next.insert(next.end(), {kEos, 80, 81});
  driver.add(request(next));
  EXPECT_THAT(driver.step(), ElementsAre(Line{1, 0, 7, 3}));
}

TEST(SchedulerAhead, ACancelledSequenceSaysNothingMore) {
  SchedulerDriver driver(caching());
  const uint64_t id = driver.add(request(count(7)));
  driver.add(request(count(3, 60)));
  const StepPlan first = driver.plan();
  driver.scheduler().cancel(RequestId{id});
  const StepPlan second = driver.plan_behind(first);
  ASSERT_EQ(driver.finished.size(), 1U);
  EXPECT_EQ(driver.finished[0].reason, FinishReason::kCancelled);
  EXPECT_EQ(driver.finished[0].timings.num_output_tokens, 0);
  EXPECT_THAT(lines(second), ElementsAre(Line{1, 0, 3, 1}));
  EXPECT_TRUE(first.scheduled[0].is_void());
  driver.commit(first, kEos);
  EXPECT_EQ(driver.finished.size(), 2U) << "the other one stopped, and only that";
  driver.commit(second);
  EXPECT_EQ(driver.finished.size(), 2U);
}

TEST(SchedulerAhead, ADeadlinePassesInFlight) {
  SchedulerDriver driver(caching());
  Request hurried = request(count(7));
  hurried.deadline = at(1);
  driver.add(hurried);
  const StepPlan first = driver.plan();  // at 0
  EXPECT_TRUE(driver.plan_behind(first).is_empty());
  ASSERT_EQ(driver.finished.size(), 1U);
  EXPECT_EQ(driver.finished[0].reason, FinishReason::kDeadline);
  driver.commit(first, kEos);
  EXPECT_EQ(driver.finished.size(), 1U);
  EXPECT_TRUE(driver.scheduler().is_idle());
  EXPECT_EQ(driver.scheduler().stats().num_blocks_cached, 0)
      << "it was computed, nobody knows what";
}

TEST(SchedulerAhead, AnErrorIsNobodysPrefix) {
  SchedulerDriver driver(caching());
  driver.add(request(count(8)));
  driver.errors[0] = Error{ErrorCode::kInternal, "no numbers"};
  const StepPlan first = driver.plan();
  const StepPlan second = driver.plan_behind(first);
  driver.commit(first);
  ASSERT_EQ(driver.finished.size(), 1U);
  EXPECT_EQ(driver.finished[0].reason, FinishReason::kError);
  driver.commit(second);
  EXPECT_TRUE(driver.scheduler().is_idle());
  EXPECT_EQ(driver.scheduler().stats().num_blocks_cached, 0);
}

// Two sequences grow until the four blocks of four are too few, and the second gives up its own.
TEST(SchedulerAhead, APreemptedSequenceKeepsItsPendingTokenAndStartsAgainOnceItIsKnown) {
  SchedulerConfig config = caching();
  config.num_blocks = 4;
  SchedulerDriver driver(config);
  driver.add(request(count(3), 12));
  driver.add(request(count(3, 60), 12));
  StepPlan first = driver.plan();
  const Sequence& sequence = *first.scheduled[1].sequence;
  StepPlan second = driver.plan_behind(first);
  while (sequence.state() == SequenceState::kRunning) {
    driver.commit(first);
    first = std::exchange(second, {});
    second = driver.plan_behind(first);
  }
  EXPECT_EQ(first.scheduled.size(), 2U);
  EXPECT_EQ(second.scheduled.size(), 1U) << "it would be computed twice at once";
  const size_t num_known = sequence.output().size();
  EXPECT_TRUE(sequence.pending_row().has_value());
  driver.commit(first);
  EXPECT_EQ(sequence.output().size(), num_known + 1);
  driver.commit(second);
  const auto ends = driver.run();
  for (const uint64_t id : {0U, 1U}) {
    EXPECT_EQ(ends.at(id)[0].timings.num_output_tokens, 12);
    EXPECT_EQ(ends.at(id)[0].timings.num_preemptions, id == 1 ? 1 : 0);
  }
}

TEST(SchedulerAhead, BlocksAreFoundOnceTheirTokensAreKnown) {
  SchedulerDriver driver(caching());
  driver.add(request(count(8)));
  const StepPlan first = driver.plan();
  driver.add(request(count(11)));
  const StepPlan second = driver.plan_behind(first);
  EXPECT_THAT(lines(second), ElementsAre(Line{0, 0, 8, 1}, Line{1, 0, 0, 11}))
      << "nobody knows yet whether the first step succeeds";
  driver.commit(first);
  driver.add(request(count(10)));
  const StepPlan third = driver.plan_behind(second);
  EXPECT_THAT(lines(third), ElementsAre(Line{0, 0, 9, 1}, Line{1, 0, 11, 1}, Line{2, 0, 8, 2}));
  driver.commit(second);
  driver.commit(third);
}

TEST(SchedulerAhead, AnAnswerIsFoundUpToWhatIsSettled) {
  SchedulerDriver driver(caching());
  driver.add(request(count(6)));
  driver.texts[0] = {40, 41, 42};
  const StepPlan first = driver.plan();
  const StepPlan second = driver.plan_behind(first);
  driver.commit(first);  // 40, the seventh token
  const StepPlan third = driver.plan_behind(second);
  driver.commit(second);  // 41 is the eighth; third computes it
  std::vector<TokenId> next = count(6);
  next.insert(next.end(), {40, 41, 90, 91});
  driver.add(request(next));
  const StepPlan fourth = driver.plan_behind(third);
  EXPECT_THAT(lines(fourth), ElementsAre(Line{0, 0, 8, 1}, Line{1, 0, 6, 4}));
  driver.commit(third);
  driver.commit(fourth);
  driver.add(request(next));
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 9, 1}, Line{1, 0, 10, 1}, Line{2, 0, 10, 0}));
}

TEST(SchedulerAhead, AHiddenSlotIsReadOnlyAfterTheStepThatSavesItIsCommitted) {
  SchedulerDriver driver(caching());
  driver.add(request(count(6)));
  const StepPlan first = driver.plan();
  ASSERT_TRUE(first.scheduled[0].saved_to.has_value());
  driver.add(request(count(6)));
  const StepPlan second = driver.plan_behind(first);
  EXPECT_EQ(driver.num_resumed, 0);
  EXPECT_NE(second.scheduled[1].saved_to, first.scheduled[0].saved_to);
  driver.commit(first);
  driver.add(request(count(6)));
  const StepPlan third = driver.plan_behind(second);
  EXPECT_EQ(driver.num_resumed, 1);
  EXPECT_EQ(third.scheduled[2].resumed_from, first.scheduled[0].saved_to);
  driver.commit(second);
  driver.commit(third);
}

TEST(SchedulerAhead, AHiddenSlotComesBackFromWhatIsVoid) {
  SchedulerConfig config = caching();
  config.num_hidden_slots = 1;
  SchedulerDriver driver(config);
  const uint64_t id = driver.add(request(count(6)));
  const StepPlan first = driver.plan();
  ASSERT_TRUE(first.scheduled[0].saved_to.has_value());
  driver.scheduler().cancel(RequestId{id});
  EXPECT_TRUE(driver.plan_behind(first).is_empty());
  driver.commit(first);
  driver.add(request(count(6, 60)));
  EXPECT_TRUE(driver.plan().scheduled[0].saved_to.has_value());
}

TEST(SchedulerAhead, ChoicesStartWhenTheFirstTokenIsKnown) {
  SchedulerDriver driver(roomy());
  Request three = request(count(6), 3);
  three.sampling.n = 3;
  driver.add(three);
  const StepPlan first = driver.plan();
  const StepPlan second = driver.plan_behind(first);
  EXPECT_THAT(lines(second), ElementsAre(Line{0, 0, 6, 1}));
  driver.commit(first);
  const StepPlan third = driver.plan_behind(second);
  EXPECT_EQ(third.scheduled.size(), 3U);
  driver.commit(second);
  driver.commit(third);
  EXPECT_EQ(driver.run().at(0).size(), 2U) << "the first has ended before";
}

TEST(SchedulerAhead, ACancelledFirstChoiceHandsThePromptOnThoughItsTokenIsPending) {
  SchedulerDriver driver(caching());
  Request two = request(count(6), 3);
  two.sampling.n = 2;
  const uint64_t id = driver.add(two);
  const StepPlan first = driver.plan();
  driver.scheduler().cancel(RequestId{id}, 0);
  const StepPlan second = driver.plan_behind(first);
  EXPECT_THAT(lines(second), ElementsAre(Line{0, 1, 0, 6}));
  driver.commit(first);
  driver.commit(second);
  const auto ends = driver.run();
  ASSERT_EQ(ends.at(0).size(), 1U);
  EXPECT_EQ(ends.at(0)[0].choice, 1);
  EXPECT_EQ(ends.at(0)[0].timings.num_output_tokens, 3);
}

// Both are in the step in flight; the second to end takes the request with it.
TEST(SchedulerAhead, ARequestStaysValidUntilTheStepThatItIsInIsCommitted) {
  SchedulerDriver driver(roomy());
  Request two = request(count(6));
  two.sampling.n = 2;
  const uint64_t id = driver.add(two);
  driver.step();
  const StepPlan first = driver.plan();
  EXPECT_EQ(first.scheduled.size(), 2U);
  driver.scheduler().cancel(RequestId{id}, 0);
  const StepPlan second = driver.plan_behind(first);
  driver.commit(first, kEos);
  EXPECT_EQ(driver.finished.size(), 2U);
  EXPECT_TRUE(second.scheduled[0].is_void());
  driver.commit(second);
  EXPECT_TRUE(driver.scheduler().is_idle());
}

TEST(SchedulerAheadDeathTest, OneStepIsInFlightWhileTheNextIsPlanned) {
  SchedulerDriver driver(roomy());
  driver.add(4);
  const StepPlan first = driver.plan();
  EXPECT_DEATH(driver.plan(), "neither committed nor assumed");
  const StepPlan second = driver.plan_behind(first);
  EXPECT_DEATH(driver.scheduler().assume(second), "one step is in flight");
  EXPECT_DEATH(driver.scheduler().assume(first), "one step is in flight");
}

}  // namespace
}  // namespace millrace
