#include "cache/prefix_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/math.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int32_t kBlockSize = 4;

PrefixCache::Options options(int32_t num_blocks, int32_t num_hidden_slots = 4) {
  return {
      .num_blocks = num_blocks,
      .block_size = kBlockSize,
      .num_hidden_slots = num_hidden_slots,
      .hash_key = {.low = 1, .high = 2}};
}

// A sequence that has its blocks from a cache.
struct Owner {
  explicit Owner(std::vector<TokenId> all, uint64_t salt = 0)
      : tokens(std::move(all)), hashes({.low = salt, .high = 0}) {}

  PrefixCache::Prefix prefix() { return {.tokens = {.prompt = tokens}, .hashes = hashes}; }
  int32_t size() const { return static_cast<int32_t>(tokens.size()); }

  PrefixMatch match(const PrefixCache& cache) { return cache.match(prefix(), size()); }

  // As a scheduler does: takes what is there, allocates the rest, and computes it all.
  PrefixMatch compute(PrefixCache& cache) {
    PrefixMatch found = match(cache);
    cache.take(found);
    table = found.blocks;
    const auto num_missing = static_cast<size_t>(div_ceil(size(), kBlockSize)) - table.size();
    const std::vector<BlockId> missing = cache.try_allocate(num_missing).value();
    table.insert(table.end(), missing.begin(), missing.end());
    for (int32_t first = 0; first < size(); first += kBlockSize) {
      const auto index = static_cast<size_t>(first / kBlockSize);
      const int32_t num_tokens = std::min(kBlockSize, size() - first);
      table[index] = cache.keep(prefix(), first / kBlockSize, num_tokens, table[index]);
    }
    return found;
  }

  void compute_with_end(PrefixCache& cache) {
    compute(cache);
    if (const auto slot = cache.reserve_hidden(prefix())) {
      cache.keep_hidden(prefix(), table.back(), *slot);
    }
  }

  void leave(PrefixCache& cache) { cache.release(table); }

  std::vector<TokenId> tokens;
  PrefixHashes hashes;
  std::vector<BlockId> table;
};

std::vector<TokenId> count(int32_t n, TokenId from = 0) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < n; ++i) tokens.push_back(from + i);
  return tokens;
}

std::vector<TokenId> joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(PrefixCache, SharesWholeBlocksWithASequenceThatStillRuns) {
  PrefixCache cache(options(16));
  Owner first(count(10));
  first.compute(cache);
  Owner second(joined(count(8), {50, 51, 52}));
  const PrefixMatch match = second.compute(cache);
  EXPECT_EQ(match.num_tokens, 8);
  EXPECT_THAT(match.blocks, ElementsAre(first.table[0], first.table[1]));
  EXPECT_EQ(match.part, std::nullopt);
  EXPECT_EQ(cache.pool().num_references(first.table[0]), 2);
  EXPECT_EQ(cache.pool().num_references(second.table[2]), 1);
  first.leave(cache);
  second.leave(cache);
  EXPECT_EQ(cache.num_available(), 16);
  cache.check_invariants(0);
}

TEST(PrefixCache, SharesWhatASequenceLeftBehind) {
  PrefixCache cache(options(16));
  Owner first(count(10));
  first.compute(cache);
  first.leave(cache);
  EXPECT_EQ(cache.pool().num_idle(), 3);
  Owner second(count(20));
  const PrefixMatch match = second.match(cache);
  EXPECT_EQ(match.num_tokens, 10);
  EXPECT_THAT(match.blocks, ElementsAre(first.table[0], first.table[1]));
  EXPECT_EQ(match.part, (BlockPart{first.table[2], 2}));
  EXPECT_EQ(cache.num_available_beside(match), 14) << "idle blocks of the match are not for sale";
}

TEST(PrefixCache, MatchesTheBeginningOfABlock) {
  PrefixCache cache(options(16));
  Owner first(count(8));
  first.compute(cache);
  Owner second(joined(count(6), {90, 91}));
  const PrefixMatch match = second.match(cache);
  EXPECT_THAT(match.blocks, ElementsAre(first.table[0]));
  EXPECT_EQ(match.part, (BlockPart{first.table[1], 2}));
  EXPECT_EQ(match.num_tokens, 6);
}

TEST(PrefixCache, LeavesTheLastTokenToBeComputedWhereItsHiddenStateIsNotKept) {
  PrefixCache cache(options(16));
  Owner first(count(10));
  first.compute(cache);
  for (const int32_t size : {8, 9, 10}) {
    Owner second(count(size));
    const PrefixMatch match = second.match(cache);
    EXPECT_EQ(match.num_tokens, size - 1);
    EXPECT_EQ(match.hidden, std::nullopt);
    EXPECT_EQ(static_cast<int32_t>(match.blocks.size()), (size - 1) / kBlockSize);
  }
  Owner one(count(1));
  EXPECT_EQ(one.match(cache).num_tokens, 0);
  EXPECT_EQ(one.match(cache).part, std::nullopt);
}

TEST(PrefixCache, AnExactRepeatFindsTheHiddenStateAtItsEnd) {
  for (const int32_t size : {3, 4, 8, 10}) {
    PrefixCache cache(options(16));
    Owner first(count(size));
    first.compute_with_end(cache);
    Owner repeat(count(size));
    const PrefixMatch match = repeat.match(cache);
    EXPECT_EQ(match.num_tokens, size);
    ASSERT_TRUE(match.hidden) << size;
    EXPECT_EQ(match.part.has_value(), size % kBlockSize != 0);
    // Its end is the end of this prompt only.
    Owner longer(count(size + 1));
    EXPECT_EQ(longer.match(cache).hidden, std::nullopt);
    Owner shorter(count(size - 1));
    EXPECT_EQ(shorter.match(cache).hidden, std::nullopt);
    EXPECT_EQ(cache.match(repeat.prefix(), size - 1).hidden, std::nullopt) << "not all is wanted";
    cache.check_invariants(0);
  }
}

TEST(PrefixCache, APromptsEndIsKeptWhenItsBlockIsFilledByOthers) {
  PrefixCache cache(options(16));
  Owner prompt(count(6));
  prompt.compute_with_end(cache);
  // Two sequences go on alike and fill the block; the second gives its own up for the first's.
  Owner first(count(8));
  first.compute(cache);
  prompt.tokens = count(8);
  const BlockId before = prompt.table[1];
  prompt.table[1] = cache.keep(prompt.prefix(), 1, 4, before);
  EXPECT_EQ(prompt.table[1], first.table[1]);
  Owner repeat(count(6));
  EXPECT_TRUE(repeat.match(cache).hidden);
  EXPECT_EQ(repeat.match(cache).part->block, first.table[1]);
  cache.check_invariants(0);
}

TEST(PrefixCache, TwoPromptsThatEndInOneBlockKeepTheLaterEnd) {
  PrefixCache cache(options(16));
  Owner first(count(8));
  first.compute_with_end(cache);
  Owner second(count(7));
  second.compute(cache);
  const std::optional<HiddenSlotId> slot = cache.reserve_hidden(second.prefix());
  cache.keep_hidden(second.prefix(), first.table[1], *slot);
  EXPECT_FALSE(Owner(count(8)).match(cache).hidden);
  EXPECT_TRUE(Owner(count(7)).match(cache).hidden);
  cache.check_invariants(0);
}

TEST(PrefixCache, RunsOutOfHiddenSlotsWithoutHarm) {
  PrefixCache cache(options(16, 1));
  Owner first(count(5));
  first.compute_with_end(cache);
  Owner second(count(5, 100));
  second.compute(cache);
  EXPECT_EQ(cache.reserve_hidden(second.prefix()), std::nullopt);
  first.leave(cache);
  EXPECT_EQ(cache.reserve_hidden(second.prefix()), std::nullopt) << "an idle prefix keeps its own";
  ASSERT_TRUE(cache.try_allocate(14));  // takes the idle ones
  const std::optional<HiddenSlotId> slot = cache.reserve_hidden(second.prefix());
  ASSERT_TRUE(slot);
  cache.check_invariants(1);
  cache.give_back(*slot);
  cache.check_invariants(0);
}

TEST(PrefixCache, OneSaltDoesNotSeeWhatIsAnothers) {
  PrefixCache cache(options(16));
  Owner first(count(10), 1);
  first.compute_with_end(cache);
  Owner other(count(10), 2);
  EXPECT_EQ(other.match(cache).num_tokens, 0);
  Owner same(count(10), 1);
  EXPECT_EQ(same.match(cache).num_tokens, 10);
}

TEST(PrefixCache, GivesAwayTheEndOfAPrefixBeforeItsBeginning) {
  PrefixCache cache(options(3));
  Owner first(count(12));
  first.compute(cache);
  first.leave(cache);
  for (const int32_t num_left : {12, 8, 4}) {
    Owner repeat(count(13));
    EXPECT_EQ(repeat.match(cache).num_tokens, num_left);
    ASSERT_TRUE(cache.try_allocate(1));
    cache.check_invariants(0);
  }
  EXPECT_EQ(cache.pool().num_idle(), 0);
  EXPECT_EQ(cache.try_allocate(1), std::nullopt);
}

TEST(PrefixCache, GivesAwayWhatWasUsedLongestAgo) {
  PrefixCache cache(options(4));
  Owner a(count(4, 100));
  Owner b(count(4, 200));
  a.compute(cache);
  b.compute(cache);
  a.leave(cache);
  b.leave(cache);
  Owner again(count(5, 100));
  again.compute(cache);  // takes a's block and a free one
  again.leave(cache);
  ASSERT_TRUE(cache.try_allocate(2));
  EXPECT_EQ(Owner(count(5, 200)).match(cache).num_tokens, 0);
  EXPECT_EQ(Owner(count(5, 100)).match(cache).num_tokens, 4);
  cache.check_invariants(0);
}

TEST(PrefixCache, TwoThatComputedTheSameEndUpSharingIt) {
  PrefixCache cache(options(16));
  Owner first(count(8));
  Owner second(count(8));
  first.table = *cache.try_allocate(2);
  second.table = *cache.try_allocate(2);
  for (int32_t index = 0; index < 2; ++index) {
    for (Owner* owner : {&first, &second}) {
      BlockId& block = owner->table[static_cast<size_t>(index)];
      block = cache.keep(owner->prefix(), index, kBlockSize, block);
    }
  }
  EXPECT_EQ(first.table, second.table);
  EXPECT_EQ(cache.pool().num_free(), 14);
  first.leave(cache);
  EXPECT_EQ(cache.pool().num_references(second.table[0]), 1);
  cache.check_invariants(0);
}

TEST(PrefixCache, ForgetsWhatCannotBeTrusted) {
  PrefixCache cache(options(16));
  Owner good(count(4));
  good.compute(cache);
  Owner bad(count(10));
  bad.compute_with_end(cache);
  cache.discard(bad.table);
  EXPECT_EQ(Owner(count(10)).match(cache).num_tokens, 4) << "what another uses is its own";
  EXPECT_EQ(cache.pool().num_idle(), 0);
  cache.check_invariants(0);
}

TEST(PrefixCache, KeepsNothingIdleIfItShouldNot) {
  PrefixCache::Options plain = options(8);
  plain.keeps_idle_blocks = false;
  PrefixCache cache(plain);
  Owner first(count(10));
  first.compute_with_end(cache);
  Owner second(count(10));
  EXPECT_TRUE(second.compute(cache).hidden) << "choices of one request share all the same";
  first.leave(cache);
  EXPECT_EQ(Owner(count(9)).match(cache).num_tokens, 8);
  second.leave(cache);
  EXPECT_EQ(cache.pool().num_free(), 8);
  EXPECT_THAT(Owner(count(10)).match(cache).blocks, IsEmpty());
  cache.check_invariants(0);
}

}  // namespace
}  // namespace millrace
