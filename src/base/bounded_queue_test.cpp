#include "base/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

namespace millrace {
namespace {

TEST(BoundedQueue, GivesBackValuesInTheOrderTheyCame) {
  BoundedQueue<int> queue(3);
  for (const int value : {1, 2, 3}) EXPECT_EQ(queue.try_push(value), PushResult::kPushed);
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.try_pop(), 2);
  EXPECT_EQ(queue.pop(), 3);
  EXPECT_EQ(queue.try_pop(), std::nullopt);
}

TEST(BoundedQueue, RefusesAValueWhenFull) {
  BoundedQueue<int> queue(2);
  EXPECT_EQ(queue.capacity(), 2U);
  EXPECT_EQ(queue.try_push(1), PushResult::kPushed);
  EXPECT_EQ(queue.try_push(2), PushResult::kPushed);
  EXPECT_EQ(queue.try_push(3), PushResult::kFull);
  EXPECT_EQ(queue.size(), 2U);
  EXPECT_EQ(queue.try_pop(), 1);
  EXPECT_EQ(queue.try_push(4), PushResult::kPushed);
  EXPECT_EQ(queue.try_pop(), 2);
  EXPECT_EQ(queue.try_pop(), 4);
}

TEST(BoundedQueue, HoldsValuesThatCanOnlyBeMoved) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  EXPECT_EQ(queue.push(std::make_unique<int>(7)), PushResult::kPushed);
  EXPECT_EQ(**queue.pop(), 7);
}

TEST(BoundedQueue, WaitsForAValueUntilADeadline) {
  BoundedQueue<int> queue(1);
  EXPECT_EQ(queue.pop_until(Clock::now() - std::chrono::seconds(1)), std::nullopt);
  const TimePoint deadline = Clock::now() + std::chrono::milliseconds(5);
  EXPECT_EQ(queue.pop_until(deadline), std::nullopt);
  EXPECT_GE(Clock::now(), deadline);
  std::jthread pusher([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    queue.push(7);
  });
  EXPECT_EQ(queue.pop_until(Clock::now() + std::chrono::hours(1)), 7);
  queue.close();
  EXPECT_EQ(queue.pop_until(Clock::now() + std::chrono::hours(1)), std::nullopt);
}

TEST(BoundedQueue, AfterCloseRefusesNewValuesAndGivesOutTheRest) {
  BoundedQueue<int> queue(4);
  EXPECT_EQ(queue.push(1), PushResult::kPushed);
  EXPECT_EQ(queue.push(2), PushResult::kPushed);
  queue.close();
  queue.close();
  EXPECT_EQ(queue.push(3), PushResult::kClosed);
  EXPECT_EQ(queue.try_push(3), PushResult::kClosed);
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), 2);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueue, CloseWakesSleepersOnBothSides) {
  BoundedQueue<int> empty(1);
  BoundedQueue<int> full(1);
  ASSERT_EQ(full.push(1), PushResult::kPushed);
  std::optional<int> popped = 5;
  PushResult pushed = PushResult::kPushed;
  {
    std::jthread popper([&] { popped = empty.pop(); });
    std::jthread pusher([&] { pushed = full.push(2); });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    empty.close();
    full.close();
  }
  EXPECT_EQ(popped, std::nullopt);
  EXPECT_EQ(pushed, PushResult::kClosed);
  EXPECT_EQ(full.size(), 1U);
}

TEST(BoundedQueue, PassesEachValueOnceBetweenManyThreads) {
  constexpr int kNumThreads = 4;
  constexpr int kNumValues = 2000;
  BoundedQueue<int> queue(8);
  std::vector<std::vector<int>> received(kNumThreads);
  {
    std::vector<std::jthread> consumers;
    for (std::vector<int>& mine : received) {
      consumers.emplace_back([&queue, &mine] {
        while (const std::optional<int> value = queue.pop()) mine.push_back(*value);
      });
    }
    {
      std::vector<std::jthread> producers;
      for (int producer = 0; producer < kNumThreads; ++producer) {
        producers.emplace_back([&queue, producer] {
          for (int i = 0; i < kNumValues; ++i) {
            EXPECT_EQ(queue.push(producer * kNumValues + i), PushResult::kPushed);
          }
        });
      }
    }
    queue.close();
  }
  std::vector<int> hits(kNumThreads * kNumValues, 0);
  for (const std::vector<int>& mine : received) {
    std::vector<int> last(kNumThreads, -1);
    for (const int value : mine) {
      ++hits[static_cast<size_t>(value)];
      int& before = last[static_cast<size_t>(value / kNumValues)];
      EXPECT_LT(before, value) << "values of one producer keep their order";
      before = value;
    }
  }
  EXPECT_EQ(hits, std::vector<int>(hits.size(), 1));
}

TEST(BoundedQueue, WakesTheTakerOfSilentPushesWhenTold) {
  BoundedQueue<int> queue(3);
  std::jthread consumer([&] {
    for (int i = 0; i < 300; ++i) EXPECT_EQ(queue.pop(), i);
  });
  for (int i = 0; i < 300; i += 3) {
    for (int j = i; j < i + 3; ++j) {
      while (queue.try_push_silently(j) == PushResult::kFull) std::this_thread::yield();
    }
    queue.wake_taker();
  }
  consumer.join();
  EXPECT_EQ(queue.size(), 0U);
  queue.close();
  EXPECT_EQ(queue.try_push_silently(1), PushResult::kClosed);
}

TEST(BoundedQueue, NeverHoldsMoreThanItsCapacity) {
  BoundedQueue<int> queue(2);
  std::atomic<int> num_pushed{0};
  std::jthread producer([&] {
    for (int i = 0; i < 100; ++i) {
      queue.push(i);
      num_pushed.fetch_add(1);
    }
  });
  for (int i = 0; i < 100; ++i) {
    EXPECT_LE(queue.size(), 2U);
    EXPECT_LE(num_pushed.load(), i + 3);
    EXPECT_EQ(queue.pop(), i);
  }
}

}  // namespace
}  // namespace millrace
