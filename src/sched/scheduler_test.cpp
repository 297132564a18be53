#include "sched/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "sched/scheduler_driver.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Scheduler, PlansNothingWithoutRequests) {
  SchedulerDriver driver(roomy());
  EXPECT_THAT(driver.step(), IsEmpty());
  EXPECT_TRUE(driver.scheduler().is_idle());
}

TEST(Scheduler, RefusesARequestThatCanNeverRunAndKeepsNothingOfIt) {
  SchedulerDriver driver(roomy());
  Request request;
  EXPECT_EQ(driver.scheduler().add(request).error().where, "prompt");
  request.prompt.assign(64, 1);
  EXPECT_EQ(driver.scheduler().add(request).error().where, "prompt");
  EXPECT_TRUE(driver.scheduler().is_idle());
}

TEST(Scheduler, ComputesAPromptInChunksAndThenOneTokenAStep) {
  SchedulerDriver driver(roomy());
  driver.add(40, 3);
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 0, 16}));
  EXPECT_EQ(driver.num_logit_rows, 0);
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 16, 16}));
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 32, 8}));
  EXPECT_EQ(driver.num_logit_rows, 1);
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 40, 1}));
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 41, 1}));
  ASSERT_EQ(driver.finished.size(), 1U);
  EXPECT_TRUE(driver.scheduler().is_idle());
  EXPECT_EQ(driver.scheduler().stats().num_tokens_computed, 42);
  EXPECT_EQ(driver.scheduler().stats().num_blocks_free, 64);
}

// The sum of a prompt's tokens and of all rows of logits had no place in 32 bits.
TEST(Scheduler, MayHaveAsManyRowsOfLogitsAsThereAreNumbers) {
  SchedulerConfig config = roomy();
  config.max_logit_rows = std::numeric_limits<int32_t>::max();
  SchedulerDriver driver(config);
  driver.add(40, 1);
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 0, 16}));
}

TEST(Scheduler, MixesOutputsAndPromptsInOneStep) {
  SchedulerDriver driver(roomy());
  driver.add(4);
  driver.step();
  driver.add(30);
  driver.add(6);
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 4, 1}, Line{1, 0, 0, 15}));
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 5, 1}, Line{1, 0, 15, 15}));
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 6, 1}, Line{1, 0, 30, 1}, Line{2, 0, 0, 6}));
}

TEST(Scheduler, ALongPromptLeavesATokenForEveryoneBehindIt) {
  SchedulerConfig config = roomy();
  config.policy = SchedulingPolicy::kPriority;
  SchedulerDriver driver(config);
  driver.add(4, 100, 5);
  driver.add(4, 100, 5);
  driver.step();
  driver.add(60, 2, 1);  // goes first from now on
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 4, 1}, Line{1, 0, 4, 1}, Line{2, 0, 0, 14}));
  EXPECT_THAT(driver.step(), ElementsAre(Line{2, 0, 14, 14}, Line{0, 0, 5, 1}, Line{1, 0, 5, 1}));
}

TEST(Scheduler, BoundsTheTokensOfOneSequenceSoThatPromptsShareAStep) {
  SchedulerConfig config = roomy();
  config.long_prefill_token_threshold = 6;
  SchedulerDriver driver(config);
  driver.add(40);
  driver.add(40);
  driver.add(40);
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 0, 6}, Line{1, 0, 0, 6}, Line{2, 0, 0, 4}));
}

TEST(Scheduler, RunsAtMostMaxNumSeqsAtOnce) {
  SchedulerDriver driver(roomy());
  for (int i = 0; i < 6; ++i) driver.add(1, 2);
  EXPECT_EQ(driver.step().size(), 4U);
  EXPECT_EQ(driver.scheduler().stats().num_waiting, 2);
  EXPECT_EQ(driver.step().size(), 4U);
  EXPECT_THAT(driver.step(), ElementsAre(Line{4, 0, 0, 1}, Line{5, 0, 0, 1}));
}

TEST(Scheduler, NobodyOvertakesWhoWaitsForBlocks) {
  SchedulerConfig config = roomy();
  config.num_blocks = 10;
  SchedulerDriver driver(config);
  driver.add(16, 4);
  driver.step();
  driver.add(32, 2);  // 8 blocks: does not fit beside the first
  driver.add(1, 2);   // would fit, and waits
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 16, 1}));
  const auto ends = driver.run();
  EXPECT_LE(*ends.at(1)[0].timings.first_scheduled, *ends.at(2)[0].timings.first_scheduled);
}

TEST(Scheduler, AdmitsByPriorityThenArrivalUnderThatPolicy) {
  SchedulerConfig config = roomy();
  config.max_num_seqs = 1;
  config.policy = SchedulingPolicy::kPriority;
  SchedulerDriver driver(config);
  driver.add(2, 1, 3);
  driver.add(2, 1, -1);
  driver.add(2, 1, 3);
  driver.add(2, 1, -7);
  std::vector<uint64_t> order;
  while (!driver.scheduler().is_idle()) order.push_back(std::get<0>(driver.step().at(0)));
  EXPECT_THAT(order, ElementsAre(3, 1, 0, 2));
}

TEST(Scheduler, IgnoresPrioritiesUnderFirstComeFirstServed) {
  SchedulerConfig config = roomy();
  config.max_num_seqs = 1;
  SchedulerDriver driver(config);
  driver.add(2, 1, 3);
  driver.add(2, 1, -1);
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 0, 2}));
}

// --- Too few blocks ---

SchedulerConfig tight() {
  SchedulerConfig config = roomy();
  config.block_size = 2;
  config.num_blocks = 8;
  return config;
}

TEST(Scheduler, PreemptsTheLastAndRecomputesItLater) {
  SchedulerDriver driver(tight());
  driver.add(5, 8);
  driver.add(4, 8);
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 0, 5}, Line{1, 0, 0, 4}));
  driver.add(1, 8);
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 5, 1}, Line{1, 0, 4, 1}));
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 6, 1}, Line{1, 0, 5, 1}));
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 7, 1}, Line{1, 0, 6, 1}));
  EXPECT_EQ(driver.scheduler().stats().num_blocks_free, 0);
  // The first takes its fifth block from the second, which returns to its place before the third.
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 8, 1}));
  EXPECT_EQ(driver.scheduler().stats().num_preemptions, 1);
  for (int i = 9; i < 12; ++i) EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, i, 1}));
  EXPECT_THAT(driver.step(), ElementsAre(Line{1, 0, 0, 8}, Line{2, 0, 0, 1}));
  EXPECT_EQ(driver.num_logit_rows, 2);
  const auto ends = driver.run();
  EXPECT_EQ(ends.at(1)[0].timings.num_output_tokens, 8);
  EXPECT_EQ(ends.at(1)[0].timings.num_preemptions, 1);
}

TEST(Scheduler, NeverPreemptsTheFirstInOrder) {
  SchedulerConfig config = tight();
  config.num_blocks = 10;
  SchedulerDriver driver(config);
  for (int i = 0; i < 4; ++i) driver.add(2, 14);
  const auto ends = driver.run();
  ASSERT_EQ(ends.size(), 4U);
  EXPECT_EQ(ends.at(0)[0].timings.num_preemptions, 0);
  EXPECT_GT(driver.scheduler().stats().num_preemptions, 0);
  for (const auto& [id, events] : ends) EXPECT_EQ(events[0].timings.num_output_tokens, 14);
}

TEST(Scheduler, PreemptsTheLowestPriorityFirst) {
  SchedulerConfig config = tight();
  config.policy = SchedulingPolicy::kPriority;
  SchedulerDriver driver(config);
  driver.add(4, 12, 2);  // first come, and least wanted
  driver.add(4, 12, 1);
  const auto ends = driver.run();
  EXPECT_GT(ends.at(0)[0].timings.num_preemptions, 0);
  EXPECT_EQ(ends.at(1)[0].timings.num_preemptions, 0);
}

TEST(Scheduler, TheLastStallsWithItsBlocksRatherThanPreemptItself) {
  SchedulerConfig config = roomy();
  config.num_blocks = 3;  // of 4
  SchedulerDriver driver(config);
  driver.add(1, 8);
  driver.add(1, 8);
  driver.step();
  // One block each and one in reserve; the first takes it at its fifth token, the second stalls.
  for (int i = 1; i < 4; ++i) EXPECT_EQ(driver.step().size(), 2U);
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 4, 1}));
  driver.add(1, 1);  // is not let in while someone stalls
  for (int i = 5; i < 8; ++i) EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, i, 1}));
  EXPECT_THAT(driver.step(), ElementsAre(Line{1, 0, 4, 1}));
  EXPECT_EQ(driver.scheduler().stats().num_preemptions, 0);
}

TEST(Scheduler, AdmitsOnlyWithABlockInReserveForEachRunningSequence) {
  SchedulerConfig config = roomy();
  config.num_blocks = 4;
  SchedulerDriver driver(config);
  driver.add(8, 8);  // 2 blocks
  driver.add(8, 2);  // 2 blocks would be free, and none in reserve
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 0, 8}));
  EXPECT_EQ(driver.scheduler().stats().num_blocks_free, 2);

  config.num_blocks = 5;
  SchedulerDriver roomier(config);
  roomier.add(8, 8);
  roomier.add(8, 2);
  EXPECT_EQ(roomier.step().size(), 2U);
}

TEST(Scheduler, CountsBlocksThatARunningPromptWillStillNeed) {
  SchedulerConfig config = roomy();
  config.num_blocks = 12;
  config.long_prefill_token_threshold = 8;
  SchedulerDriver driver(config);
  driver.add(40, 4);  // 10 blocks, 2 of them in the first step
  driver.step();
  EXPECT_EQ(driver.scheduler().stats().num_blocks_free, 10);
  driver.add(8, 4);  // 2 blocks, and one in reserve: more than 12 - 10
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 8, 8}));
  EXPECT_EQ(driver.run().at(1)[0].timings.num_preemptions, 0);
}

TEST(Scheduler, PreemptionDoesNotThrash) {
  // Far more work than blocks. What is computed again must stay a fraction of what is computed.
  SchedulerConfig config = roomy();
  config.max_num_batched_tokens = 64;
  config.max_num_seqs = 16;
  config.max_logit_rows = 16;
  config.num_blocks = 24;
  SchedulerDriver driver(config);
  int64_t num_tokens_needed = 0;
  for (int i = 0; i < 100; ++i) {
    driver.add(8, 40);
    num_tokens_needed += 8 + 40 - 1;
  }
  EXPECT_EQ(driver.run().size(), 100U);
  const SchedulerStats stats = driver.scheduler().stats();
  EXPECT_GT(stats.num_preemptions, 0);
  EXPECT_EQ(stats.num_tokens_computed - stats.num_tokens_recomputed, num_tokens_needed);
  EXPECT_LE(
      stats.num_tokens_recomputed,
      num_tokens_needed / RecomputeCredit::kUsefulPerRecomputed + 2 * 24 * config.block_size
  );
  EXPECT_EQ(stats.num_prompt_tokens, 100 * 8) << "counted again after a preemption";
  EXPECT_EQ(stats.num_output_tokens, 100 * 40);
}

// --- How a sequence ends ---

TEST(Scheduler, EndsAtAnEndOfSequenceToken) {
  SchedulerDriver driver(roomy());
  driver.add(4);
  driver.step(kEos);
  ASSERT_EQ(driver.finished.size(), 1U);
  EXPECT_EQ(driver.finished[0].reason, FinishReason::kStop);
  EXPECT_EQ(driver.finished[0].stop_token, kEos);
  EXPECT_EQ(driver.finished[0].timings.num_output_tokens, 1);
}

TEST(Scheduler, EndsAtAStopTokenAndIgnoresEosWhenAsked) {
  SchedulerDriver driver(roomy());
  Request request{.prompt = {1, 2, 3}};
  request.sampling.ignore_eos = true;
  request.sampling.stop_token_ids = {5};
  driver.add(request);
  driver.step(kEos);
  EXPECT_THAT(driver.finished, IsEmpty());
  driver.step(5);
  ASSERT_EQ(driver.finished.size(), 1U);
  EXPECT_EQ(driver.finished[0].reason, FinishReason::kStop);
  EXPECT_EQ(driver.finished[0].stop_token, 5);
}

TEST(Scheduler, DoesNotStopBeforeMinTokens) {
  SchedulerDriver driver(roomy());
  Request request{.prompt = {1, 2, 3}};
  request.sampling.min_tokens = 3;
  driver.add(request);
  driver.step(kEos);
  driver.step(kEos);
  EXPECT_THAT(driver.finished, IsEmpty());
  driver.step(kEos);
  EXPECT_EQ(driver.finished.size(), 1U);
}

TEST(Scheduler, EndsAtMaxTokensOrAtTheLongestSequence) {
  SchedulerDriver driver(roomy());
  driver.add(4, 3);
  driver.add(60, 1000000);
  const auto ends = driver.run();
  EXPECT_EQ(ends.at(0)[0].reason, FinishReason::kLength);
  EXPECT_EQ(ends.at(0)[0].stop_token, std::nullopt);
  EXPECT_EQ(ends.at(0)[0].timings.num_output_tokens, 3);
  EXPECT_EQ(ends.at(1)[0].reason, FinishReason::kLength);
  EXPECT_EQ(ends.at(1)[0].timings.num_output_tokens, 4);
}

TEST(Scheduler, EndsWhereASingleSequenceFillsThePool) {
  SchedulerConfig config = roomy();
  config.num_blocks = 2;
  SchedulerDriver driver(config);
  driver.add(6, 100);
  EXPECT_EQ(driver.run().at(0)[0].timings.num_output_tokens, 3);  // 8 slots and a last token
}

TEST(Scheduler, AnErrorEndsItsSequenceAlone) {
  SchedulerDriver driver(roomy());
  driver.add(3, 4);
  driver.add(3, 4);
  driver.errors[0] = Error{ErrorCode::kInternal, "broken", ""};
  driver.step();
  ASSERT_EQ(driver.finished.size(), 1U);
  EXPECT_EQ(driver.finished[0].request.value, 0U);
  EXPECT_EQ(driver.finished[0].reason, FinishReason::kError);
  EXPECT_EQ(driver.finished[0].error->message, "broken");
  EXPECT_EQ(driver.run().at(1)[0].reason, FinishReason::kLength);
}

TEST(Scheduler, TheChoicesOfARequestEndOnTheirOwn) {
  SchedulerDriver driver(roomy());
  Request request{.prompt = {1, 2, 3}};
  request.sampling.n = 6;  // more than may run at once
  request.sampling.max_tokens = 2;
  driver.add(request);
  const auto ends = driver.run();
  ASSERT_EQ(ends.at(0).size(), 6U);
  for (int32_t choice = 0; choice < 6; ++choice) {
    EXPECT_EQ(ends.at(0)[static_cast<size_t>(choice)].choice, choice);
    EXPECT_EQ(ends.at(0)[static_cast<size_t>(choice)].num_choices_unfinished, 5 - choice);
  }
}

TEST(Scheduler, CancelEndsEachUnfinishedChoiceOnce) {
  SchedulerConfig config = roomy();
  config.max_num_seqs = 2;
  SchedulerDriver driver(config);
  Request request{.prompt = {1, 2, 3}};
  request.sampling.n = 3;  // one runs, one will, and one waits
  driver.add(request);
  driver.step();
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 3, 1}, Line{0, 1, 2, 1}));
  driver.add(2, 2);
  driver.scheduler().cancel(RequestId{0});
  driver.scheduler().cancel(RequestId{0});
  driver.scheduler().cancel(RequestId{77});
  EXPECT_THAT(driver.step(), ElementsAre(Line{1, 0, 0, 2}));
  ASSERT_EQ(driver.finished.size(), 3U);
  for (const FinishedEvent& event : driver.finished) {
    EXPECT_EQ(event.reason, FinishReason::kCancelled);
  }
  EXPECT_EQ(driver.finished[2].num_choices_unfinished, 0);
  EXPECT_EQ(driver.finished[2].timings.first_scheduled, std::nullopt);
  driver.scheduler().cancel(RequestId{0});
  EXPECT_EQ(driver.run().size(), 1U);
}

TEST(Scheduler, CancelsOneChoiceAndLeavesTheOthers) {
  SchedulerDriver driver(roomy());
  Request request{.prompt = {1, 2, 3}};
  request.sampling.n = 3;
  driver.add(request);
  driver.step();
  driver.scheduler().cancel(RequestId{0}, 1);
  driver.scheduler().cancel(RequestId{77}, 1);
  driver.step();
  ASSERT_EQ(driver.finished.size(), 1U);
  EXPECT_EQ(driver.finished[0].choice, 1);
  EXPECT_EQ(driver.finished[0].reason, FinishReason::kCancelled);
  EXPECT_EQ(driver.finished[0].num_choices_unfinished, 2);
  driver.scheduler().cancel(RequestId{0}, 1);  // over already
  const auto ends = driver.run();
  ASSERT_EQ(ends.at(0).size(), 2U);
  EXPECT_EQ(ends.at(0)[1].reason, FinishReason::kLength);
}

TEST(Scheduler, CancelAllEmptiesIt) {
  SchedulerDriver driver(roomy());
  for (int i = 0; i < 6; ++i) driver.add(5);
  driver.step();
  driver.scheduler().cancel_all();
  EXPECT_THAT(driver.step(), IsEmpty());
  EXPECT_EQ(driver.finished.size(), 6U);
  EXPECT_TRUE(driver.scheduler().is_idle());
  EXPECT_EQ(driver.scheduler().stats().num_blocks_free, 64);
}

TEST(Scheduler, ADeadlineEndsWhoRunsAndWhoWaits) {
  SchedulerConfig config = roomy();
  config.max_num_seqs = 1;
  SchedulerDriver driver(config);
  driver.add(Request{.prompt = {1}, .deadline = at(2)});
  driver.add(Request{.prompt = {1}, .deadline = at(2)});
  driver.step();
  driver.step();
  EXPECT_THAT(driver.finished, IsEmpty());
  driver.step();
  ASSERT_EQ(driver.finished.size(), 2U);
  EXPECT_EQ(driver.finished[0].reason, FinishReason::kDeadline);
  EXPECT_EQ(driver.finished[0].timings.num_output_tokens, 2);
  EXPECT_EQ(driver.finished[1].reason, FinishReason::kDeadline);
  EXPECT_EQ(driver.finished[1].timings.num_output_tokens, 0);
}

TEST(Scheduler, TellsWhenThingsHappened) {
  SchedulerConfig config = roomy();
  config.max_num_seqs = 1;
  SchedulerDriver driver(config);
  driver.add(2, 2);
  driver.add(20, 3);
  const SequenceTimings timings = driver.run().at(1)[0].timings;
  EXPECT_EQ(timings.arrival, at(0));
  EXPECT_EQ(timings.first_scheduled, at(2));
  EXPECT_EQ(timings.first_token, at(4));  // two steps of 16 and 4 tokens
  EXPECT_EQ(timings.last_token, at(6));
  EXPECT_EQ(timings.num_prompt_tokens, 20);
  EXPECT_EQ(timings.num_output_tokens, 3);
  EXPECT_EQ(timings.num_preemptions, 0);
}

// --- Prompt logprobs ---

TEST(Scheduler, WantsLogitsOfEachPromptTokenOnceAndKeepsToTheRows) {
  SchedulerDriver driver(roomy());  // 4 rows a step
  Request request{.prompt = std::vector<TokenId>(10, 3)};
  request.sampling.prompt_logprobs = 1;
  driver.add(request);
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 0, 4}));
  EXPECT_EQ(driver.num_logit_rows, 4);
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 4, 4}));
  driver.add(2);  // takes one row as soon as it runs
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 8, 2}, Line{1, 0, 0, 2}));
  EXPECT_EQ(driver.num_logit_rows, 3);
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 10, 1}, Line{1, 0, 2, 1}));
  EXPECT_EQ(driver.num_logit_rows, 2);
}

TEST(Scheduler, LeavesALogitRowForEveryoneBehind) {
  SchedulerConfig config = roomy();
  config.policy = SchedulingPolicy::kPriority;
  SchedulerDriver driver(config);
  driver.add(1, 100, 1);
  driver.add(1, 100, 1);
  driver.step();
  Request request{.prompt = std::vector<TokenId>(10, 3)};
  request.sampling.prompt_logprobs = 0;
  driver.add(request);
  driver.step();
  EXPECT_THAT(driver.step(), ElementsAre(Line{2, 0, 2, 2}, Line{0, 0, 2, 1}, Line{1, 0, 2, 1}));
  EXPECT_EQ(driver.num_logit_rows, 4);
}

TEST(Scheduler, OnlyTheFirstChoiceHasPromptLogprobs) {
  SchedulerDriver driver(roomy());
  Request request{.prompt = std::vector<TokenId>(3, 3)};
  request.sampling.prompt_logprobs = 0;
  request.sampling.n = 2;
  driver.add(request);
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 0, 3}));
  EXPECT_EQ(driver.num_logit_rows, 3);
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 3, 1}, Line{0, 1, 2, 1}));
  EXPECT_EQ(driver.num_logit_rows, 2);
}

TEST(Scheduler, RecomputingReadsNoLogitsASecondTime) {
  SchedulerConfig config = roomy();
  config.max_logit_rows = 64;
  config.num_blocks = 6;
  SchedulerDriver driver(config);
  driver.add(4, 12);
  Request request{.prompt = std::vector<TokenId>(8, 3)};
  request.sampling.prompt_logprobs = 0;
  request.sampling.max_tokens = 8;
  driver.add(request);
  int64_t num_rows = 0;
  while (!driver.scheduler().is_idle()) {
    driver.step();
    num_rows += driver.num_logit_rows;
  }
  EXPECT_GT(driver.scheduler().stats().num_preemptions, 0);
  EXPECT_EQ(num_rows, 12 + 7 + 8);
}

TEST(SchedulerDeathTest, RefusesAPlanThatWasCommittedBefore) {
  SchedulerDriver driver(roomy());
  driver.add(20);
  const StepPlan plan = driver.scheduler().plan(at(0));
  const std::vector<StepOutcome> outcomes{NothingSampled{}};
  driver.scheduler().commit(plan, outcomes, at(0));
  EXPECT_DEATH(driver.scheduler().commit(plan, outcomes, at(0)), "not the oldest one");
}

}  // namespace
}  // namespace millrace
