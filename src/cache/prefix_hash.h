// The hashes of a sequence's prefixes: one for each of its full blocks, each over the one before it
// and the block's own tokens. So two equal hashes mean two equal prefixes, not two equal blocks.
// Computed once for each block, since tokens are only ever appended. Owned by its sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/id.h"
#include "base/siphash.h"
#include "cache/token_view.h"

namespace millrace {

// The hash of a prefix that ends with `tokens` and hashes to `before` without them.
Hash128 extend_prefix_hash(SipKey key, Hash128 before, std::span<const TokenId> tokens);

class PrefixHashes {
 public:
  // `root`: of the empty prefix. Sequences of different roots share nothing.
  explicit PrefixHashes(Hash128 root) : root_(root) {}

  // Adds the full blocks of `tokens` that are not hashed yet.
  void extend(const TokenView& tokens, int32_t block_size, SipKey key);

  int32_t num_blocks() const { return static_cast<int32_t>(hashes_.size()); }

  // Of all tokens before block `index`. REQUIRES: 0 <= index <= num_blocks().
  Hash128 before(int32_t index) const {
    return index == 0 ? root_ : hashes_[static_cast<size_t>(index) - 1];
  }
  // Of all tokens up to the end of block `index`. REQUIRES: 0 <= index < num_blocks().
  Hash128 through(int32_t index) const { return hashes_[static_cast<size_t>(index)]; }

 private:
  Hash128 root_;
  std::vector<Hash128> hashes_;
};

}  // namespace millrace
