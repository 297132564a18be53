#include "cache/prefix_index.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"

namespace millrace {
namespace {

constexpr Hash128 kRoot{.low = 1, .high = 1};
constexpr Hash128 kOther{.low = 2, .high = 1};
constexpr Hash128 kThrough{.low = 7, .high = 7};

using Tokens = std::vector<TokenId>;

TEST(PrefixIndex, FindsAWholeBlockByThePrefixItEnds) {
  PrefixIndex index(4, 3);
  index.enter_whole(BlockId{2}, kRoot, kThrough, Tokens{5, 6, 7});
  EXPECT_EQ(index.find_whole(kRoot, kThrough, Tokens{5, 6, 7}), BlockId{2});
  index.check_invariants();
}

TEST(PrefixIndex, ComparesTokensAndPrefixWhereAHashIsEqual) {
  PrefixIndex index(4, 3);
  index.enter_whole(BlockId{2}, kRoot, kThrough, Tokens{5, 6, 7});
  EXPECT_EQ(index.find_whole(kRoot, kThrough, Tokens{5, 6, 8}), std::nullopt);
  EXPECT_EQ(index.find_whole(kOther, kThrough, Tokens{5, 6, 7}), std::nullopt);
  // A second prefix of the same hash is not found whole, and nothing breaks.
  index.enter_whole(BlockId{1}, kOther, kThrough, Tokens{1, 1, 1});
  EXPECT_EQ(index.find_whole(kOther, kThrough, Tokens{1, 1, 1}), std::nullopt);
  EXPECT_EQ(index.find_part(kOther, Tokens{1, 1, 1}), (BlockPart{BlockId{1}, 3}));
  index.check_invariants();
  index.erase(BlockId{1});
  EXPECT_EQ(index.find_whole(kRoot, kThrough, Tokens{5, 6, 7}), BlockId{2});
  index.check_invariants();
}

TEST(PrefixIndex, FindsTheBlockThatBeginsWithTheMost) {
  PrefixIndex index(8, 4);
  index.enter(BlockId{0}, kRoot, Tokens{1, 2});
  index.enter(BlockId{1}, kRoot, Tokens{1, 2, 3, 9});
  index.enter(BlockId{2}, kRoot, Tokens{1});
  index.enter(BlockId{3}, kRoot, Tokens{2, 2, 3, 4});
  index.enter(BlockId{4}, kOther, Tokens{1, 2, 3, 4});
  EXPECT_EQ(index.find_part(kRoot, Tokens{1, 2, 3, 4}), (BlockPart{BlockId{1}, 3}));
  EXPECT_EQ(index.find_part(kRoot, Tokens{1, 7}), (BlockPart{BlockId{2}, 1}));
  EXPECT_EQ(index.find_part(kRoot, Tokens{2}), (BlockPart{BlockId{3}, 1}));
  EXPECT_EQ(index.find_part(kRoot, Tokens{9}), std::nullopt);
  EXPECT_EQ(index.find_part(kRoot, Tokens{}), std::nullopt);
  index.check_invariants();
}

// Which blocks share a list depends on the hash key, and a replay has another one.
TEST(PrefixIndex, FindsWhatItFindsWhateverElseIsInTheList) {
  constexpr int32_t kNumOthers = 40;
  PrefixIndex index(kNumOthers + 1, 2);
  index.enter(BlockId{0}, kRoot, Tokens{1, 2});
  for (int32_t i = 1; i <= kNumOthers; ++i) {
    index.enter(BlockId{i}, {.low = kRoot.low, .high = 100 + static_cast<uint64_t>(i)}, Tokens{1});
  }
  EXPECT_EQ(index.find_part(kRoot, Tokens{1, 2}), (BlockPart{BlockId{0}, 2}));
}

TEST(PrefixIndex, ABlockMayGrowUntilItIsWhole) {
  PrefixIndex index(4, 3);
  index.enter(BlockId{0}, kRoot, Tokens{5});
  EXPECT_EQ(index.find_part(kRoot, Tokens{5, 6, 7}), (BlockPart{BlockId{0}, 1}));
  index.enter(BlockId{0}, kRoot, Tokens{5, 6});
  EXPECT_EQ(index.find_part(kRoot, Tokens{5, 6, 7}), (BlockPart{BlockId{0}, 2}));
  index.enter_whole(BlockId{0}, kRoot, kThrough, Tokens{5, 6, 7});
  EXPECT_EQ(index.find_whole(kRoot, kThrough, Tokens{5, 6, 7}), BlockId{0});
  EXPECT_EQ(index.num_entered(), 1);
  index.check_invariants();
}

TEST(PrefixIndex, EntersAWholeBlockOnceOnly) {
  PrefixIndex index(4, 3);
  EXPECT_EQ(index.enter_whole(BlockId{2}, kRoot, kThrough, Tokens{5, 6, 7}), BlockId{2});
  EXPECT_EQ(index.enter_whole(BlockId{2}, kRoot, kThrough, Tokens{5, 6, 7}), BlockId{2});
  EXPECT_EQ(index.enter_whole(BlockId{0}, kRoot, kThrough, Tokens{5, 6, 7}), BlockId{2});
  EXPECT_FALSE(index.contains(BlockId{0}));
  index.check_invariants();
}

TEST(PrefixIndex, ForgetsWhatIsErased) {
  PrefixIndex index(4, 2);
  index.enter_whole(BlockId{0}, kRoot, kThrough, Tokens{5, 6});
  index.enter(BlockId{1}, kRoot, Tokens{5});
  index.erase(BlockId{0});
  index.erase(BlockId{3});  // was never there
  EXPECT_EQ(index.find_whole(kRoot, kThrough, Tokens{5, 6}), std::nullopt);
  EXPECT_EQ(index.find_part(kRoot, Tokens{5, 6}), (BlockPart{BlockId{1}, 1}));
  index.erase(BlockId{1});
  EXPECT_EQ(index.find_part(kRoot, Tokens{5, 6}), std::nullopt);
  EXPECT_EQ(index.num_entered(), 0);
  index.check_invariants();
}

TEST(PrefixIndex, KeepsItsInvariantsUnderRandomUse) {
  Rng rng(3);
  PrefixIndex index(20, 3);
  std::map<int32_t, Tokens> entered;
  for (int i = 0; i < 20000; ++i) {
    const auto block = static_cast<int32_t>(rng.below(20));
    if (rng.below(3) == 0) {
      index.erase(BlockId{block});
      entered.erase(block);
    } else if (!entered.contains(block)) {
      Tokens tokens(1 + rng.below(3));
      for (TokenId& token : tokens) token = static_cast<TokenId>(rng.below(2));
      index.enter(BlockId{block}, kRoot, tokens);
      entered[block] = tokens;
    }
    if (i % 16 == 0) index.check_invariants();
    const Tokens wanted = {static_cast<TokenId>(rng.below(2)), 1, 0};
    int32_t best = 0;
    for (const auto& [id, tokens] : entered) {
      const auto common = std::mismatch(tokens.begin(), tokens.end(), wanted.begin()).first;
      best = std::max(best, static_cast<int32_t>(common - tokens.begin()));
    }
    const std::optional<BlockPart> found = index.find_part(kRoot, wanted);
    // 20 blocks at most, of which it looks at 16: it may miss the best one, and then knows less.
    ASSERT_EQ(found.has_value(), best > 0);
    const int32_t num_found = found ? found->num_tokens : 0;
    ASSERT_LE(num_found, best);
    ASSERT_TRUE(num_found == best || entered.size() > 16);
  }
}

}  // namespace
}  // namespace millrace
