#include "server/local_memory.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// What the KV cache takes of `free` MiB, where a sequence at its longest takes `one_sequence`.
int64_t cache_of(int64_t free, int64_t one_sequence, const LocalModelOptions& options = {}) {
  MemoryPlan plan;
  plan.options.block_size = 16;
  plan.max_model_len = static_cast<int32_t>(one_sequence) * 16;
  plan.kv_bytes_per_block = kMiB;
  plan.num_blocks = free;
  return kv_cache_bytes(plan, options) / kMiB;
}

TEST(KvCacheBytes, AreAsAsked) {
  LocalModelOptions options;
  options.kv_cache_bytes = 7 * kMiB;
  EXPECT_EQ(cache_of(10'000, 10, options), 7);
}

TEST(KvCacheBytes, AreNoMoreThanAllSequencesCouldUse) {
  LocalModelOptions options;
  options.engine.max_num_seqs = 3;
  EXPECT_EQ(cache_of(10'000, 10, options), 3 * (10 + 1));
}

TEST(KvCacheBytes, AreFourGibibytesOrOneSequence) {
  EXPECT_EQ(cache_of(10'000, 1000), 4096);
  EXPECT_EQ(cache_of(10'000, 5000), 5000);
}

// A server whose cache took all that a container had was killed once it had filled.
TEST(KvCacheBytes, LeaveRoomForAllElse) {
  EXPECT_EQ(cache_of(1000, 100), 1000 - 256);
  EXPECT_EQ(cache_of(300, 200), 200) << "one sequence goes before";
  EXPECT_EQ(cache_of(150, 200), 150);
}

}  // namespace
}  // namespace millrace
