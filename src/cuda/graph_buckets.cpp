#include "cuda/graph_buckets.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace millrace::cuda {
namespace {

int32_t next_decode_size(int32_t size) {
  if (size < 4) return size * 2;
  if (size < 8) return 8;
  return size + (size < 256 ? 8 : 16);
}

int32_t next_token_size(int32_t size) {
  if (size < 128) return size + 16;
  return size + static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(size)) / 8);
}

// From `first` on, as long as sizes stay below `last`; and `last`.
std::vector<int32_t> sizes_up_to(int32_t last, int32_t first, int32_t (*next)(int32_t)) {
  CHECK(last >= 1, "a step has a row at least");
  std::vector<int32_t> sizes;
  for (int32_t size = first; size < last; size = next(size)) sizes.push_back(size);
  sizes.push_back(last);
  return sizes;
}

}  // namespace

GraphBuckets GraphBuckets::for_decode(int32_t num_sequences_max) {
  return GraphBuckets(sizes_up_to(num_sequences_max, 1, next_decode_size));
}

GraphBuckets GraphBuckets::for_tokens(int32_t num_tokens_max) {
  return GraphBuckets(sizes_up_to(num_tokens_max, 16, next_token_size));
}

GraphBuckets::GraphBuckets(std::vector<int32_t> sizes) : sizes_(std::move(sizes)) {}

std::optional<int32_t> GraphBuckets::smallest_that_fits(int32_t num_rows) const {
  CHECK(num_rows >= 1, "a step has a row at least");
  const auto size = std::ranges::lower_bound(sizes_, num_rows);
  if (size == sizes_.end()) return std::nullopt;
  return *size;
}

}  // namespace millrace::cuda
