#include "cuda/emulated/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "cuda/runtime.h"
#include "cuda_device.h"
#include "kernels/test_data.h"

namespace millrace::cuda {
namespace {

using testing::Each;
using testing::ElementsAre;

class Threads : public testing::TestWithParam<emulated::ThreadOrder> {
 protected:
  void SetUp() override { emulated::set_thread_order(GetParam()); }
  void TearDown() override { emulated::set_thread_order(emulated::ThreadOrder::kAscending); }
};

using ThreadsDeathTest = Threads;

INSTANTIATE_TEST_SUITE_P(
    Orders,
    Threads,
    testing::Values(emulated::ThreadOrder::kAscending, emulated::ThreadOrder::kDescending),
    [](const auto& order) {
      return order.param == emulated::ThreadOrder::kAscending ? "ascending" : "descending";
    }
);

void run(Dim3 grid, Dim3 block, const std::function<void()>& body, size_t num_shared_bytes = 0) {
  emulated::run_grid({.grid = grid, .block = block, .num_shared_bytes = num_shared_bytes}, body);
}

TEST_P(Threads, AreEachRunOnceWithTheirOwnIndices) {
  std::vector<uint32_t> seen(3 * 2 * 2 * 5 * 4 * 3, 0);
  run({3, 2, 2}, {5, 4, 3}, [&] {
    const uint32_t block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const uint32_t thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    ++seen.at(block * 60 + thread);
  });
  EXPECT_THAT(seen, Each(1));
}

TEST_P(Threads, SeeAtABarrierWhatAllWroteBeforeIt) {
  constexpr uint32_t kThreads = 96;
  std::vector<uint32_t> results(4 * kThreads);
  run(
      {4},
      {kThreads},
      [&] {
        auto* const values = dynamic_shared<uint32_t>(0, kThreads);
        values[threadIdx.x] = threadIdx.x;
        for (uint32_t distance = 1; distance < 8; ++distance) {
          sync_block();
          const uint32_t other = values[(threadIdx.x + distance) % kThreads];
          sync_block();
          values[threadIdx.x] = values[threadIdx.x] * 3 + other;
        }
        results[blockIdx.x * kThreads + threadIdx.x] = values[threadIdx.x];
      },
      kThreads * sizeof(uint32_t)
  );

  std::vector<uint32_t> expected(kThreads);
  std::iota(expected.begin(), expected.end(), 0);
  for (uint32_t distance = 1; distance < 8; ++distance) {
    const std::vector<uint32_t> before = expected;
    for (uint32_t i = 0; i < kThreads; ++i) {
      expected[i] = before[i] * 3 + before[(i + distance) % kThreads];
    }
  }
  for (uint32_t block = 0; block < 4; ++block) {
    const auto begin = results.begin() + block * kThreads;
    EXPECT_EQ(std::vector<uint32_t>(begin, begin + kThreads), expected);
  }
}

TEST_P(Threads, ExchangeValuesWithinTheirWarp) {
  std::vector<uint32_t> from_next(64);
  std::vector<float> sums(64);
  std::vector<int32_t> rotated(64);
  run({1}, {64}, [&] {
    const uint32_t index = threadIdx.x;
    from_next[index] = shuffle(index, (index + 1) % 32);
    float sum = static_cast<float>(index);
    for (uint32_t mask = 16; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
    sums[index] = sum;
    // The result of one exchange goes into the next, for as many turns as bring it back.
    auto value = static_cast<int32_t>(index);
    for (int turn = 0; turn < 32; ++turn) value = shuffle(value, (index + 1) % 32);
    sync_warp();
    rotated[index] = value;
  });
  for (uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(from_next[i], i / 32 * 32 + (i + 1) % 32);
    EXPECT_EQ(sums[i], i < 32 ? 496.0F : 1520.0F);
    EXPECT_EQ(rotated[i], static_cast<int32_t>(i));
  }
}

// Warps of a block go their own ways between barriers.
TEST_P(Threads, OfDifferentWarpsExchangeDifferentlyOften) {
  std::vector<uint32_t> results(128);
  run(
      {1},
      {128},
      [&] {
        uint32_t value = threadIdx.x % 32;
        for (uint32_t turn = 0; turn < threadIdx.x / 32; ++turn) value = shuffle_xor(value, 1);
        auto* const values = dynamic_shared<uint32_t>(0, 128);
        values[threadIdx.x] = value;
        sync_block();
        results[threadIdx.x] = values[127 - threadIdx.x];
      },
      512
  );
  for (uint32_t i = 0; i < 128; ++i) {
    const uint32_t from = 127 - i;
    EXPECT_EQ(results[i], (from % 32) ^ (from / 32 % 2));
  }
}

// Both operands and the sums hold different numbers in each place, written by the layout's words
// alone: element by element as the PTX ISA's tables say.
TEST_P(Threads, MultiplyFragmentsAsThePtxIsaLaysThemOut) {
  float a[16][16];
  float b[16][8];
  float c[16][8];
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) a[row][k] = static_cast<float>(row * 16 + k - 128);
  }
  for (int k = 0; k < 16; ++k) {
    for (int n = 0; n < 8; ++n) b[k][n] = static_cast<float>((k * 8 + n) * 37 % 128 - 64);
  }
  for (int row = 0; row < 16; ++row) {
    for (int n = 0; n < 8; ++n) c[row][n] = static_cast<float>(1000 * (row * 8 + n));
  }
  const auto bits = [](float value) { return static_cast<uint32_t>(to_bfloat16(value).bits); };
  float results[16][8] = {};
  run({1}, {32}, [&] {
    const uint32_t g = threadIdx.x >> 2;
    const uint32_t t = threadIdx.x & 3;
    // a0, a1: (g, 2t + {0, 1}); a2, a3: (g + 8, ...); a4, a5: (g, 2t + 8 + ...); a6, a7: (g + 8,
    // ...)
    const uint32_t words_a[4] = {
        bits(a[g][2 * t]) | bits(a[g][2 * t + 1]) << 16,
        bits(a[g + 8][2 * t]) | bits(a[g + 8][2 * t + 1]) << 16,
        bits(a[g][2 * t + 8]) | bits(a[g][2 * t + 9]) << 16,
        bits(a[g + 8][2 * t + 8]) | bits(a[g + 8][2 * t + 9]) << 16};
    // b0, b1: (2t + {0, 1}, g); b2, b3: (2t + 8 + {0, 1}, g)
    const uint32_t words_b[2] = {
        bits(b[2 * t][g]) | bits(b[2 * t + 1][g]) << 16,
        bits(b[2 * t + 8][g]) | bits(b[2 * t + 9][g]) << 16};
    float sums[4] = {c[g][2 * t], c[g][2 * t + 1], c[g + 8][2 * t], c[g + 8][2 * t + 1]};
    multiply_fragments(sums, words_a, words_b);
    results[g][2 * t] = sums[0];
    results[g][2 * t + 1] = sums[1];
    results[g + 8][2 * t] = sums[2];
    results[g + 8][2 * t + 1] = sums[3];
  });
  for (int row = 0; row < 16; ++row) {
    for (int n = 0; n < 8; ++n) {
      float expected = c[row][n];  // integers below 2^24: exact in any order
      for (int k = 0; k < 16; ++k) expected += a[row][k] * b[k][n];
      EXPECT_EQ(results[row][n], expected) << row << ", " << n;
    }
  }
}

TEST_P(Threads, FindSharedMemoryFullOfNanInEveryBlock) {
  uint32_t num_nan = 0;
  run(
      {3},
      {2},
      [&] {
        auto* const value = dynamic_shared<float>(4 * threadIdx.x, 1);
        num_nan += std::isnan(*value) ? 1 : 0;
        *value = 1.0F;
      },
      8
  );
  EXPECT_EQ(num_nan, 6U);
}

// The two orders exist for this: each finds one of two missing barriers.
TEST(ThreadOrder, ShowsAMissingBarrier) {
  const auto with_order = [](emulated::ThreadOrder order, uint32_t reader) {
    emulated::set_thread_order(order);
    uint32_t result = 0;
    run(
        {1},
        {2},
        [&] {
          auto* const value = dynamic_shared<uint32_t>(0, 1);
          if (threadIdx.x != reader) *value = 7;
          if (threadIdx.x == reader) result = *value;
        },
        4
    );
    emulated::set_thread_order(emulated::ThreadOrder::kAscending);
    return result;
  };
  using enum emulated::ThreadOrder;
  EXPECT_EQ(with_order(kAscending, 1), 7U);
  EXPECT_NE(with_order(kDescending, 1), 7U);
  EXPECT_NE(with_order(kAscending, 0), 7U);
  EXPECT_EQ(with_order(kDescending, 0), 7U);
}

TEST(ThreadCounts, ShowThatThreadsWhichNeverWaitRunWithoutSwitching) {
  const emulated::Counts before = emulated::counts();
  run({10}, {256}, [] {});
  const emulated::Counts after = emulated::counts();
  EXPECT_EQ(after.num_blocks - before.num_blocks, 10U);
  EXPECT_EQ(after.num_threads - before.num_threads, 2560U);
  EXPECT_EQ(after.num_waits, before.num_waits);
  EXPECT_LE(after.num_fibers - before.num_fibers, 1U);
}

TEST(ThreadCounts, ShowThatStacksAreUsedAgain) {
  run({1}, {1024}, [] { sync_block(); });
  const emulated::Counts before = emulated::counts();
  run({20}, {1024}, [] { sync_block(); });
  EXPECT_EQ(emulated::counts().num_fibers, before.num_fibers);
}

TEST(Launch, CopiesItsArguments) {
  static std::vector<int> seen;
  seen.clear();
  void (*kernel)(int, const int*) = [](int value, const int* pointer) {
    seen.push_back(value + *pointer);
  };
  const int four = 4;
  launch({}, {.grid = {2}, .block = {1}}, kernel, 3, &four);
  EXPECT_THAT(seen, ElementsAre(7, 7));
}

TEST(Launch, IsKeptByAStreamThatCapturesForEveryLaunchOfItsGraph) {
  static std::vector<int> seen;
  seen.clear();
  void (*kernel)(int) = [](int value) { seen.push_back(value); };
  const Stream stream = *Stream::create();
  begin_capture(stream.handle());
  launch(stream.handle(), {.grid = {1}, .block = {2}}, kernel, 5);
  const GraphHandle graph = *end_capture(stream.handle());
  EXPECT_TRUE(seen.empty());
  launch_graph(stream.handle(), graph);
  launch_graph(stream.handle(), graph);
  wait_for(stream.handle());
  EXPECT_THAT(seen, ElementsAre(5, 5, 5, 5));
  destroy_graph(graph);
}

TEST(ThreadsDeathTest, NameTheBarrierThatSomeThreadsDoNotReach) {
  EXPECT_DEATH(
      run({1},
          {64},
          [] {
            if (threadIdx.x < 60) sync_block();
          }),
      "4 of 64 threads have left the kernel; 60 wait for their block at .*threads_test.cpp"
  );
}

TEST(ThreadsDeathTest, NameTheExchangeThatALaneDoesNotReach) {
  EXPECT_DEATH(
      run({1},
          {64},
          [] {
            if (threadIdx.x != 40) shuffle(1, 0);
          }),
      "33 of 64 threads have left the kernel; 31 lanes of warp 1 wait for the others at"
  );
  EXPECT_DEATH(
      run({1}, {32}, [] { threadIdx.x == 3 ? sync_block() : sync_warp(); }),
      "0 of 32 threads .*; 1 wait for their block at .*; 31 lanes of warp 0 wait"
  );
}

// Not within EXPECT_DEATH: a macro's arguments are all at one place.
void meet_at_two_barriers() {
  if (threadIdx.x % 2 == 0) {
    sync_block();
  } else {
    sync_block();
  }
}

void meet_at_two_shuffles() {
  if (threadIdx.x % 2 == 0) {
    shuffle(1, 0);
  } else {
    shuffle(2, 0);
  }
}

TEST(ThreadsDeathTest, RefuseToMeetAtDifferentPlaces) {
  EXPECT_DEATH(run({1}, {32}, meet_at_two_barriers), "waits for its block at .*, others at");
  EXPECT_DEATH(
      run({1}, {32}, meet_at_two_shuffles), "exchanges with its warp at .*, other lanes at"
  );
}

TEST(ThreadsDeathTest, RefuseExchangesInWarpsThatAreNotWhole) {
  EXPECT_DEATH(run({1}, {48}, [] { shuffle(1, 0); }), "a warp of fewer than 32 threads");
  EXPECT_DEATH(run({1}, {32}, [] { shuffle(1, 32); }), "a warp has 32 lanes");
}

TEST(ThreadsDeathTest, GuardSharedMemory) {
  EXPECT_DEATH(
      run(
          {1}, {1}, [] { dynamic_shared<float>(8, 3); }, 16
      ),
      "bytes \\[8, 20\\) of 16"
  );
  EXPECT_DEATH(
      run(
          {1}, {1}, [] { dynamic_shared<float>(2, 1); }, 16
      ),
      "aligned to its elements"
  );
  EXPECT_DEATH(
      run(
          {1}, {1}, [] { dynamic_shared<char>(0, 16)[16] = 1; }, 16
      ),
      "wrote beyond its dynamic shared memory|use-after-poison"
  );
}

TEST(ThreadsDeathTest, GuardSixteenByteAccesses) {
  alignas(16) static unsigned char memory[32];
  EXPECT_DEATH(load_words(memory + 8), "16 aligned bytes");
  EXPECT_DEATH(store_words(memory + 4, {}), "16 aligned bytes");
}

TEST(ThreadsDeathTest, KeepToTheLimitsOfADevice) {
  EXPECT_DEATH(run({1}, {1025}, [] {}), "1024 threads");
  EXPECT_DEATH(run({1}, {32, 33}, [] {}), "1024 threads");
  EXPECT_DEATH(run({1}, {1, 1, 65}, [] {}), "64 deep");
  EXPECT_DEATH(run({1}, {0}, [] {}), "a block has threads");
  EXPECT_DEATH(run({0}, {1}, [] {}), "a grid has blocks");
  EXPECT_DEATH(run({1, 65536}, {1}, [] {}), "65535");
  EXPECT_DEATH(run({1, 1, 65536}, {1}, [] {}), "65535");
  EXPECT_DEATH(run({0x80000000U}, {1}, [] {}), "2\\^31 - 1");
  EXPECT_DEATH(
      run(
          {1}, {1}, [] {}, 227 * 1024 + 1
      ),
      "227 KiB"
  );
  run(
      {1}, {1, 1, 64}, [] {}, 227 * 1024
  );
}

TEST(ThreadsDeathTest, RefuseALaunchWithinAKernel) {
  EXPECT_DEATH(run({1}, {1}, [] { run({1}, {1}, [] {}); }), "a kernel may not launch another");
}

}  // namespace
}  // namespace millrace::cuda
