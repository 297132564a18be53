#include "cache/prefix_hash.h"

#include <array>
#include <cstring>

namespace millrace {

Hash128 extend_prefix_hash(SipKey key, Hash128 before, std::span<const TokenId> tokens) {
  // Blocks of the usual sizes fit; larger ones are hashed in stretches.
  constexpr size_t kNumTokensMax = 60;
  struct Input {
    Hash128 before;
    std::array<TokenId, kNumTokensMax> tokens;
  } input;
  static_assert(sizeof(Input) == sizeof(Hash128) + kNumTokensMax * sizeof(TokenId));
  do {
    const auto stretch = tokens.first(std::min(tokens.size(), kNumTokensMax));
    input.before = before;
    std::memcpy(input.tokens.data(), stretch.data(), stretch.size_bytes());
    const auto bytes = std::as_bytes(std::span(&input, 1));
    before = siphash128(key, bytes.first(sizeof(Hash128) + stretch.size_bytes()));
    tokens = tokens.subspan(stretch.size());
  } while (!tokens.empty());
  return before;
}

void PrefixHashes::extend(const TokenView& tokens, int32_t block_size, SipKey key) {
  const int32_t num_full = tokens.size() / block_size;
  if (num_full <= num_blocks()) return;
  std::vector<TokenId> buffer(static_cast<size_t>(block_size));
  if (hashes_.empty()) hashes_.reserve(static_cast<size_t>(num_full));
  for (int32_t index = num_blocks(); index < num_full; ++index) {
    const std::span<const TokenId> block = tokens.read(index * block_size, buffer);
    hashes_.push_back(extend_prefix_hash(key, before(index), block));
  }
}

}  // namespace millrace
