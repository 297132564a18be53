#include "base/byte_budget.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

namespace millrace {
namespace {

TEST(ByteBudget, GivesNoMoreThanItHas) {
  ByteBudget budget(100);
  EXPECT_TRUE(budget.try_take(60));
  EXPECT_FALSE(budget.try_take(41));
  EXPECT_TRUE(budget.try_take(40));
  EXPECT_FALSE(budget.try_take(1));
  EXPECT_TRUE(budget.try_take(0));
  budget.give_back(60);
  EXPECT_TRUE(budget.try_take(60));
}

TEST(ByteBudget, RefusesWhatDoesNotFitASize) {
  ByteBudget budget(100);
  EXPECT_TRUE(budget.try_take(1));
  EXPECT_FALSE(budget.try_take(~size_t{0}));
}

TEST(ByteBudget, CountsWhatManyThreadsTake) {
  constexpr size_t kThreads = 4;
  ByteBudget budget(3);
  std::atomic<size_t> num_held = 0;
  std::atomic<size_t> num_held_most = 0;
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (int round = 0; round < 1000; ++round) {
          if (!budget.try_take(1)) continue;
          const size_t held = ++num_held;
          size_t most = num_held_most;
          while (held > most && !num_held_most.compare_exchange_weak(most, held)) {
          }
          --num_held;
          budget.give_back(1);
        }
      });
    }
  }
  EXPECT_LE(num_held_most, 3U);
  EXPECT_TRUE(budget.try_take(3)) << "all was given back";
}

TEST(BytesHeld, GrowsWithinTheBudgetAndGivesItBack) {
  ByteBudget budget(100);
  {
    BytesHeld held(&budget);
    EXPECT_TRUE(held.grow_to(70));
    EXPECT_TRUE(held.grow_to(30)) << "that is less than it has";
    EXPECT_FALSE(held.grow_to(101));
    EXPECT_FALSE(budget.try_take(31));
    BytesHeld moved = std::move(held);
    EXPECT_TRUE(moved.grow_to(100));
    EXPECT_FALSE(budget.try_take(1));
  }
  EXPECT_TRUE(budget.try_take(100));
}

TEST(BytesHeld, HasNoBoundWithoutABudget) {
  BytesHeld held(nullptr);
  EXPECT_TRUE(held.grow_to(~size_t{0}));
}

}  // namespace
}  // namespace millrace
