// Groups of real processes. What a rank other than 0 finds wrong is its exit code.
#include "parallel/process_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

namespace millrace {
namespace {

constexpr int32_t kWorldSizes[] = {1, 2, 4};

// Does the same on all ranks, each of which says whether it is as it should be.
void expect_on_all_ranks(int32_t world_size, const std::function<bool(ProcessGroup&)>& is_right) {
  Result<std::unique_ptr<ProcessGroup>> group = ProcessGroup::fork(
      world_size, [&](ProcessGroup& self) { return is_right(self) ? EXIT_SUCCESS : EXIT_FAILURE; }
  );
  ASSERT_TRUE(group) << group.error().message;
  EXPECT_EQ((*group)->rank(), 0);
  EXPECT_EQ((*group)->world_size(), world_size);
  EXPECT_TRUE(is_right(**group)) << "rank 0 of " << world_size;
  const Result<void> done = (*group)->wait_for_others();
  EXPECT_TRUE(done) << done.error().message;
}

// Such that another order of the sum gives other bits.
float value_of(int32_t rank, size_t i) {
  const float values[] = {1e8F, 1.0F, -1e8F, 1.5F};
  return values[(static_cast<size_t>(rank) + i) % 4];
}

std::vector<float> values_of(int32_t rank, size_t size) {
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i) values[i] = value_of(rank, i);
  return values;
}

// None, one, a slot and one more, several slots.
constexpr size_t kSizes[] = {0, 1, 1000, 65536, 65537, 300000};

TEST(ProcessGroup, SumsFromRank0OnToTheSameBitsOnEveryRank) {
  for (const int32_t world_size : kWorldSizes) {
    expect_on_all_ranks(world_size, [](ProcessGroup& group) {
      return std::ranges::all_of(kSizes, [&](size_t size) {
        std::vector<float> values = values_of(group.rank(), size);
        group.all_reduce_sum(values);
        std::vector<float> expected = values_of(0, size);
        for (int32_t rank = 1; rank < group.world_size(); ++rank) {
          for (size_t i = 0; i < size; ++i) expected[i] += value_of(rank, i);
        }
        return values == expected;
      });
    });
  }
}

TEST(ProcessGroup, GathersInTheOrderOfRanksAndDropsWhatHasNoRoom) {
  for (const int32_t world_size : kWorldSizes) {
    expect_on_all_ranks(world_size, [](ProcessGroup& group) {
      return std::ranges::all_of(kSizes, [&](size_t size) {
        const size_t num_dropped = std::min(size, size_t{70000});
        const size_t num_all = static_cast<size_t>(group.world_size()) * size - num_dropped;
        const std::vector<float> own = values_of(group.rank(), size);
        std::vector<float> all(num_all);
        group.all_gather(own, all);
        std::vector<float> expected;
        for (int32_t rank = 0; rank < group.world_size(); ++rank) {
          std::ranges::copy(values_of(rank, size), std::back_inserter(expected));
        }
        expected.resize(num_all);
        return all == expected;
      });
    });
  }
}

TEST(ProcessGroup, TellsAllWhatRank0Says) {
  for (const int32_t world_size : kWorldSizes) {
    expect_on_all_ranks(world_size, [](ProcessGroup& group) {
      return std::ranges::all_of(kSizes, [&](size_t size) {
        const std::vector<std::byte> said(size, std::byte{42});
        std::vector<std::byte> message = group.rank() == 0 ? said : std::vector<std::byte>(7);
        group.broadcast(message);
        return message == said;
      });
    });
  }
}

TEST(ProcessGroup, KeepsItsOrderWhenRanksComeLate) {
  expect_on_all_ranks(3, [](ProcessGroup& group) {
    bool is_right = true;
    for (int32_t round = 0; round < 12; ++round) {
      // Each is late in turn, by more than the others spin, so that they sleep.
      if (round % 3 == group.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      std::vector<float> values = {static_cast<float>(round * (group.rank() + 1))};
      group.all_reduce_sum(values);
      is_right = is_right && values.front() == static_cast<float>(round * 6);
    }
    return is_right;
  });
}

TEST(ProcessGroup, RefusesNumbersOfProcessesThatCannotBe) {
  const ProcessGroup::Work nothing = [](ProcessGroup&) { return EXIT_SUCCESS; };
  for (const int32_t world_size : {-1, 0, ProcessGroup::kWorldSizeMax + 1}) {
    const Result<std::unique_ptr<ProcessGroup>> group = ProcessGroup::fork(world_size, nothing);
    ASSERT_FALSE(group);
    EXPECT_EQ(group.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(ProcessGroup, SaysWhichRankDidNotEndWell) {
  const auto group = *ProcessGroup::fork(3, [](ProcessGroup& self) {
    return self.rank() == 2 ? 7 : EXIT_SUCCESS;
  });
  const Result<void> done = group->wait_for_others();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "rank 2 of 3 ended with exit code 7");
}

void wait_for_ever(ProcessGroup& group) {
  std::vector<float> values(1);
  for (;;) group.all_reduce_sum(values);
}

TEST(ProcessGroupDeathTest, EndsWithOneLineWhenARankIsLost) {
  const auto lose_rank_1 = [](int (*end)()) {
    const auto group = *ProcessGroup::fork(3, [&](ProcessGroup& self) {
      if (self.rank() == 1) return end();
      wait_for_ever(self);
      return EXIT_SUCCESS;
    });
    wait_for_ever(*group);
  };
  EXPECT_EXIT(
      lose_rank_1([] { return 3; }),
      testing::ExitedWithCode(EXIT_FAILURE),
      "rank 1 of 3 ended with exit code 3"
  );
  EXPECT_EXIT(
      lose_rank_1([] { return ::raise(SIGKILL); }),
      testing::ExitedWithCode(EXIT_FAILURE),
      "rank 1 of 3 was killed by signal 9"
  );
}

// Reads until every process that could write has ended.
void read_to_end(int fd) {
  char byte = 0;
  while (::read(fd, &byte, 1) > 0) {
  }
}

TEST(ProcessGroup, NoRankOutlivesRank0) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t leader = ::fork();
  if (leader == 0) {
    const auto group = *ProcessGroup::fork(3, [](ProcessGroup& self) {
      wait_for_ever(self);
      return EXIT_SUCCESS;
    });
    ::raise(SIGKILL);
  }
  ASSERT_GT(leader, 0);
  ::close(ends[1]);
  read_to_end(ends[0]);  // or hangs
  ::waitpid(leader, nullptr, 0);
  ::close(ends[0]);
}

TEST(ProcessGroup, KillsWhoStillRunsAtItsEnd) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  {
    const auto group = *ProcessGroup::fork(2, [](ProcessGroup&) { return ::pause(); });
  }
  ::close(ends[1]);
  read_to_end(ends[0]);
  ::close(ends[0]);
}

TEST(ProcessGroup, LeavesSignalsOfTheTerminalToRank0) {
  const auto group = *ProcessGroup::fork(2, [](ProcessGroup& self) {
    ::raise(SIGINT);
    ::raise(SIGTERM);
    std::vector<float> values(1);
    self.all_reduce_sum(values);
    return EXIT_SUCCESS;
  });
  std::vector<float> values(1);
  group->all_reduce_sum(values);
  EXPECT_TRUE(group->wait_for_others());
}

}  // namespace
}  // namespace millrace
