// What the scheduler does not compute: prefixes that are there, exact repeats, the shared prompt of
// a request's choices; and what a preempted sequence finds again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

Request request(std::vector<TokenId> prompt, int32_t max_tokens = 4) {
  Request request{.prompt = std::move(prompt)};
  request.sampling.max_tokens = max_tokens;
  return request;
}

std::vector<TokenId> count(int32_t n, TokenId from = 20) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < n; ++i) tokens.push_back(from + i);
  return tokens;
}

TEST(SchedulerPrefix, ComputesOnlyWhatFollowsAPrefixThatIsThere) {
  SchedulerDriver driver(caching());
  driver.add(request(count(10)));
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 0, 10}));
  std::vector<TokenId> other = count(8);
  other.insert(other.end(), {90, 91, 92});
  driver.add(request(other));
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 10, 1}, Line{1, 0, 8, 3}));
  EXPECT_THAT(driver.copies, IsEmpty()) << "whole blocks are shared as they are";
  const auto ends = driver.run();
  EXPECT_EQ(ends.at(0)[0].timings.num_cached_tokens, 0);
  EXPECT_EQ(ends.at(1)[0].timings.num_cached_tokens, 8);
  EXPECT_EQ(driver.scheduler().stats().num_prefix_queries, 10 + 11);
  EXPECT_EQ(driver.scheduler().stats().num_prefix_hits, 8);
}

TEST(SchedulerPrefix, CopiesABlockOfWhichTheBeginningIsThere) {
  SchedulerDriver driver(caching());
  driver.add(request(count(8)));
  driver.run();
  std::vector<TokenId> other = count(6);
  other.push_back(90);
  driver.add(request(other));
  EXPECT_THAT(driver.step(), ElementsAre(Line{1, 0, 6, 1}));
  EXPECT_EQ(driver.copies.size(), 1U);
  EXPECT_NE(driver.copies[0].from, driver.copies[0].to);
  EXPECT_EQ(driver.scheduler().stats().num_block_copies, 1);
}

TEST(SchedulerPrefix, AnExactRepeatComputesNothing) {
  for (const int32_t size : {5, 8}) {
    SchedulerDriver driver(caching());
    driver.add(request(count(size)));
    driver.run();
    driver.add(request(count(size)));
    EXPECT_THAT(driver.step(), ElementsAre(Line{1, 0, size, 0}));
    EXPECT_EQ(driver.num_resumed, 1);
    EXPECT_EQ(driver.num_logit_rows, 1);
    EXPECT_EQ(driver.copies.size(), size % 4 == 0 ? 0U : 1U);
    EXPECT_THAT(driver.step(), ElementsAre(Line{1, 0, size, 1}));
    const auto ends = driver.run();
    EXPECT_EQ(ends.at(1)[0].timings.num_cached_tokens, size);
    EXPECT_EQ(ends.at(1)[0].timings.num_output_tokens, 4);
  }
}

TEST(SchedulerPrefix, AnExactRepeatWithoutAHiddenSlotComputesOneToken) {
  SchedulerConfig config = caching();
  config.num_hidden_slots = 0;
  SchedulerDriver driver(config);
  driver.add(request(count(8)));
  driver.run();
  driver.add(request(count(8)));
  EXPECT_THAT(driver.step(), ElementsAre(Line{1, 0, 7, 1}));
  EXPECT_EQ(driver.copies.size(), 1U) << "the block of the others is not written";
}

TEST(SchedulerPrefix, ContinuesAConversation) {
  SchedulerDriver driver(caching());
  driver.add(request(count(6), 5));
  driver.run();  // computes 6 prompt tokens and 4 of the 5 it said
  std::vector<TokenId> next = count(6);
  next.insert(next.end(), 5, kAnyToken);
  next.insert(next.end(), {70, 71});
  driver.add(request(next));
  EXPECT_THAT(driver.step(), ElementsAre(Line{1, 0, 10, 3}));
}

TEST(SchedulerPrefix, RequestsOfOtherRootsShareNothing) {
  SchedulerDriver driver(caching());
  driver.add(request(count(8)));
  driver.run();
  Request other = request(count(8));
  other.prefix_root = {.low = 1, .high = 1};
  driver.add(other);
  EXPECT_THAT(driver.step(), ElementsAre(Line{1, 0, 0, 8}));
}

TEST(SchedulerPrefix, PromptLogprobsAreComputedThoughThePrefixIsThere) {
  SchedulerConfig config = caching();
  config.max_logit_rows = 16;
  SchedulerDriver driver(config);
  driver.add(request(count(8)));
  driver.run();
  Request wants_all = request(count(8));
  wants_all.sampling.prompt_logprobs = 0;
  driver.add(wants_all);
  EXPECT_THAT(driver.step(), ElementsAre(Line{1, 0, 0, 8}));
  EXPECT_EQ(driver.num_logit_rows, 8);
}

TEST(SchedulerPrefix, TheChoicesOfARequestShareItsPrompt) {
  for (const bool enable : {true, false}) {
    SchedulerConfig config = caching();
    config.enable_prefix_caching = enable;
    SchedulerDriver driver(config);
    Request three = request(count(10), 3);
    three.sampling.n = 3;
    driver.add(three);
    EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 0, 10}));
    EXPECT_THAT(
        driver.step(), ElementsAre(Line{0, 0, 10, 1}, Line{0, 1, 10, 0}, Line{0, 2, 10, 0})
    );
    EXPECT_EQ(driver.num_resumed, 2);
    EXPECT_EQ(driver.copies.size(), 2U) << "each goes on in a copy of the last block";
    EXPECT_EQ(driver.scheduler().stats().num_blocks_free, 64 - 5)
        << "2 whole ones, and 3 last ones";
    driver.run();
    EXPECT_EQ(driver.scheduler().stats().num_blocks_cached == 0, !enable);
  }
}

TEST(SchedulerPrefix, AnotherChoiceComputesThePromptIfTheFirstEndsBefore) {
  SchedulerDriver driver(caching());
  Request three = request(count(20), 3);
  three.sampling.n = 3;
  driver.add(three);
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 0, 0, 16}));
  driver.scheduler().cancel(RequestId{0}, 0);
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 1, 16, 4})) << "from where the first had come";
  EXPECT_THAT(driver.step(), ElementsAre(Line{0, 1, 20, 1}, Line{0, 2, 20, 0}));
  EXPECT_EQ(driver.run().at(0).size(), 2U);
}

TEST(SchedulerPrefix, AHeldChoiceCanBeCancelled) {
  SchedulerDriver driver(caching());
  Request two = request(count(20), 3);
  two.sampling.n = 2;
  driver.add(two);
  driver.step();
  EXPECT_EQ(driver.scheduler().stats().num_waiting, 1);
  driver.scheduler().cancel(RequestId{0}, 1);
  driver.step();
  ASSERT_EQ(driver.finished.size(), 1U);
  EXPECT_EQ(driver.finished[0].choice, 1);
  EXPECT_EQ(driver.scheduler().stats().num_waiting, 0);
  EXPECT_EQ(driver.scheduler().stats().num_waiting_tokens, 0);
}

TEST(SchedulerPrefix, APreemptedSequenceFindsAgainWhatWasNotGivenAway) {
  SchedulerConfig config = caching();
  config.block_size = 2;
  config.num_blocks = 8;
  SchedulerDriver driver(config);
  driver.add(request(count(5), 8));
  driver.add(request(count(4, 60), 8));
  driver.step();
  // The first takes two blocks from the second before it ends; two of the second's are left.
  for (int i = 0; i < 8 && driver.scheduler().stats().num_preemptions == 0; ++i) driver.step();
  EXPECT_EQ(driver.scheduler().stats().num_preemptions, 1);
  std::vector<Line> lines;
  for (int i = 0; i < 8 && (lines.empty() || std::get<0>(lines.back()) != 1); ++i) {
    lines = driver.step();
  }
  EXPECT_THAT(lines, ElementsAre(Line{1, 0, 4, 4}));
  const FinishedEvent end = driver.run().at(1)[0];
  EXPECT_EQ(end.timings.num_preemptions, 1);
  EXPECT_LT(end.timings.num_recomputed_tokens, 7);
  EXPECT_EQ(end.timings.num_cached_tokens, 0) << "its own tokens are not a hit";
}

TEST(SchedulerPrefix, GivesIdlePrefixesAwayBeforeItPreempts) {
  SchedulerConfig config = caching();
  config.num_blocks = 8;
  SchedulerDriver driver(config);
  for (TokenId from = 100; from < 1000; from += 100) {
    driver.add(request(count(9, from), 8));
    driver.run();
    driver.scheduler().check_invariants();
  }
  EXPECT_EQ(driver.scheduler().stats().num_preemptions, 0);
  const SchedulerStats stats = driver.scheduler().stats();
  EXPECT_EQ(stats.num_blocks_free + stats.num_blocks_cached, 8);
}

TEST(SchedulerPrefix, WhatAnErrorTouchedIsNotShared) {
  SchedulerDriver driver(caching());
  driver.add(request(count(10)));
  driver.errors[0] = {ErrorCode::kInternal, "not a number"};
  driver.step();
  EXPECT_EQ(driver.scheduler().stats().num_blocks_cached, 0);
  driver.add(request(count(10)));
  EXPECT_THAT(driver.step(), ElementsAre(Line{1, 0, 0, 10}));
}

TEST(SchedulerPrefix, TenantsTakeTurnsUnderTheFairPolicy) {
  SchedulerConfig config = roomy();
  config.policy = SchedulingPolicy::kFair;
  config.max_num_seqs = 1;
  SchedulerDriver driver(config);
  for (int i = 0; i < 6; ++i) {
    Request flood = request(count(4), 4);
    flood.tenant = TenantId{1};
    driver.add(flood);
  }
  for (int i = 0; i < 2; ++i) {
    Request modest = request(count(4), 4);
    modest.tenant = TenantId{2};
    driver.add(modest);
  }
  std::vector<uint64_t> order;
  while (!driver.scheduler().is_idle()) {
    driver.step();
    for (const FinishedEvent& event : driver.finished) order.push_back(event.request.value);
  }
  EXPECT_THAT(order, ElementsAre(0, 6, 1, 7, 2, 3, 4, 5));
}

}  // namespace
}  // namespace millrace
