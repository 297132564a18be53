// Which sizes of a step have a graph. A graph does one fixed number of rows, so a step runs in the
// smallest that holds it, and its rows behind the last are padding: tokens of no sequence, whose K
// and V nobody reads, which read none, and have no logits. Pure arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace millrace::cuda {

class GraphBuckets {
 public:
  // For steps in which each sequence has one token: 1, 2, 4, each multiple of 8 to 256, then of 16,
  // the sizes that vLLM captures too. Between one and eight sequences a step's time is that of the
  // weights, so finer sizes would win nothing. The last is `num_sequences_max`, at least 1.
  static GraphBuckets for_decode(int32_t num_sequences_max);

  // For steps with prompts: multiples of 16 to 128, then eight sizes for each doubling, so that
  // padding is less than an eighth of the step; few enough to capture: 64 of them to 8192 tokens.
  // The last is `num_tokens_max`, at least 1.
  static GraphBuckets for_tokens(int32_t num_tokens_max);

  std::span<const int32_t> sizes() const { return sizes_; }  // ascending

  // nullopt: larger than any; the step runs without a graph. REQUIRES: num_rows >= 1.
  std::optional<int32_t> smallest_that_fits(int32_t num_rows) const;

 private:
  explicit GraphBuckets(std::vector<int32_t> sizes);

  std::vector<int32_t> sizes_;
};

}  // namespace millrace::cuda
