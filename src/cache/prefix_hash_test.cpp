#include "cache/prefix_hash.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

constexpr SipKey kKey{.low = 3, .high = 4};
constexpr Hash128 kRoot{.low = 1, .high = 2};

std::vector<TokenId> count(int32_t n) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < n; ++i) tokens.push_back(i);
  return tokens;
}

TEST(PrefixHashes, HashFullBlocksAsTokensCome) {
  const std::vector<TokenId> all = count(11);
  PrefixHashes at_once(kRoot);
  at_once.extend({.prompt = all}, 4, kKey);
  EXPECT_EQ(at_once.num_blocks(), 2);
  EXPECT_EQ(at_once.before(0), kRoot);
  EXPECT_EQ(at_once.before(1), at_once.through(0));

  // Split between prompt and output at every place, and grown token by token: the same hashes.
  for (size_t split = 0; split <= all.size(); ++split) {
    PrefixHashes grown(kRoot);
    for (size_t n = split; n <= all.size(); ++n) {
      const std::span<const TokenId> tokens = std::span(all).first(n);
      grown.extend({.prompt = tokens.first(split), .output = tokens.subspan(split)}, 4, kKey);
    }
    ASSERT_EQ(grown.num_blocks(), 2);
    EXPECT_EQ(grown.through(0), at_once.through(0));
    EXPECT_EQ(grown.through(1), at_once.through(1));
  }
}

TEST(PrefixHashes, DependOnRootKeyAndEveryTokenBefore) {
  const auto last_hash = [](std::vector<TokenId> tokens, Hash128 root, SipKey key) {
    PrefixHashes hashes(root);
    hashes.extend({.prompt = tokens}, 4, key);
    return hashes.through(1);
  };
  const Hash128 hash = last_hash(count(8), kRoot, kKey);
  EXPECT_NE(hash, last_hash(count(8), {.low = 1, .high = 3}, kKey));
  EXPECT_NE(hash, last_hash(count(8), kRoot, {.low = 3, .high = 5}));
  for (size_t i = 0; i < 8; ++i) {
    std::vector<TokenId> tokens = count(8);
    ++tokens[i];
    EXPECT_NE(hash, last_hash(tokens, kRoot, kKey)) << "token " << i;
  }
}

TEST(PrefixHash, TakesBlocksOfAnySize) {
  const std::vector<TokenId> long_block = count(256);
  std::vector<TokenId> other = long_block;
  const Hash128 hash = extend_prefix_hash(kKey, kRoot, long_block);
  for (const size_t i : {0, 59, 60, 61, 255}) {
    ++other[i];
    EXPECT_NE(hash, extend_prefix_hash(kKey, kRoot, other)) << "token " << i;
    --other[i];
  }
  EXPECT_EQ(hash, extend_prefix_hash(kKey, kRoot, other));
}

TEST(TokenView, CopiesAcrossTheEndOfThePrompt) {
  const std::vector<TokenId> prompt = {1, 2, 3};
  const std::vector<TokenId> output = {4, 5};
  const TokenView view{.prompt = prompt, .output = output};
  EXPECT_EQ(view.size(), 5);
  for (int32_t first = 0; first <= 5; ++first) {
    for (int32_t n = 0; first + n <= 5; ++n) {
      std::vector<TokenId> out(static_cast<size_t>(n));
      view.copy(first, out);
      for (int32_t i = 0; i < n; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], first + i + 1);
    }
  }
}

}  // namespace
}  // namespace millrace
