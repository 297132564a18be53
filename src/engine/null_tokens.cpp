#include "engine/null_tokens.h"

#include <algorithm>
#include <bit>
#include <numbers>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace millrace {
namespace {

// Keeps the draws of logprobs apart from those of tokens.
constexpr uint64_t kLogprobKey = 0x6c6f6770726f6273;

float logprob_of_rank(int32_t rank) {
  return static_cast<float>(-(rank + 1) * std::numbers::ln2);
}

}  // namespace

NullTokens::NullTokens(std::vector<TokenId> ids) : ids_(std::move(ids)) {
  CHECK(!ids_.empty(), "tokens need something to be drawn from");
}

// Uniform but for 2^-32 of the number of ids, without a division.
size_t NullTokens::index_of(uint64_t bits) const {
  return static_cast<size_t>(((bits >> 32) * ids_.size()) >> 32);
}

std::optional<TokenId> NullTokens::draw(
    uint64_t key, uint64_t position, std::span<const TokenId> barred
) const {
  size_t index = index_of(random_bits(key, position));
  for (size_t num_tries = 0; num_tries < ids_.size(); ++num_tries) {
    const TokenId id = ids_[index];
    if (!std::binary_search(barred.begin(), barred.end(), id)) return id;
    if (++index == ids_.size()) index = 0;
  }
  return std::nullopt;
}

std::vector<TokenLogprob> NullTokens::logprobs(
    TokenId chosen, int32_t num_top, uint64_t key, uint64_t position
) const {
  CHECK(num_top >= 0 && static_cast<size_t>(num_top) < ids_.size(), "too few ids for logprobs");
  const uint64_t bits = random_bits(key ^ kLogprobKey, position);
  const auto chosen_rank = static_cast<int32_t>(std::countr_zero(bits | (uint64_t{1} << 24)));

  std::vector<TokenLogprob> result;
  result.reserve(static_cast<size_t>(num_top) + 1);
  result.push_back({chosen, logprob_of_rank(chosen_rank)});
  size_t index = index_of(bits);
  const auto next_other = [&] {
    if (ids_[index] == chosen) index = (index + 1) % ids_.size();
    const TokenId id = ids_[index];
    index = (index + 1) % ids_.size();
    return id;
  };
  for (int32_t rank = 0; rank < num_top; ++rank) {
    if (rank != chosen_rank) result.push_back({next_other(), logprob_of_rank(rank)});
  }
  return result;
}

}  // namespace millrace
