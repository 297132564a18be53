#include "engine/step_budget.h"

#include <algorithm>
#include <limits>

#include "kernels/linear.h"

namespace millrace {

namespace {

constexpr int64_t kTokensMax = 2048;

// Beside one token of each sequence that is answered, there is room for prompts.
int32_t with_room(int64_t num_tokens, int64_t max_num_seqs) {
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
  const int64_t by_seqs = std::min(max_num_seqs, kLargest) + 64;
  return static_cast<int32_t>(std::min(std::max(num_tokens, by_seqs), kLargest));
}

}  // namespace

int32_t default_step_tokens(size_t num_threads, int64_t max_num_seqs, bool gains_by_long_steps) {
  const auto threads = static_cast<int64_t>(std::min<size_t>(num_threads, kTokensMax));
  const int64_t least = gains_by_long_steps ? 256 : 128;
  return with_room(std::clamp<int64_t>(16 * threads, least, kTokensMax), max_num_seqs);
}

bool gains_by_long_steps(Isa isa, const WeightFormat& weights) {
  if (weights.quantization) {
    return weights.quantization->format == QuantizedFormat::kInt4 &&
           reference_of(isa) == Isa::kAmxReference;
  }
  return takes_tiles(isa, weights.dtype);
}

int32_t default_device_step_tokens(int64_t max_num_seqs) {
  return with_room(kTokensMax, max_num_seqs);
}

int32_t default_prompt_tokens(int32_t step_tokens) {
  return std::max(1, step_tokens / 2);
}

}  // namespace millrace
