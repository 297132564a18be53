#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/attention/paged_attention_kernel.h"
#include "kernels/exp.h"
#include "kernels/lanes.h"
#include "tensor/dtype.h"

namespace millrace {
namespace {

template <class Kv>
float score(const AttentionItem& item, const float* q, size_t position) {
  const auto block = static_cast<size_t>(item.blocks[position / item.block_size]);
  const Kv* key =
      static_cast<const Kv*>(item.keys) + block * item.block_stride + position % item.block_size;
  float sum = 0.0F;
  for (size_t d = 0; d < item.head_dim; ++d) {
    sum = std::fma(q[d], to_float(key[d * item.block_size]), sum);
  }
  return sum * item.scale;
}

// Turns scores into exponentials; returns their sum.
float soften(float* scores, size_t size) {
  float largest = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < size; ++i) largest = std::max(largest, scores[i]);
  std::array<float, kLanes> sums = {};
  for (size_t i = 0; i < size; ++i) {
    scores[i] = exp_reference(scores[i] - largest);
    sums[i % kLanes] += scores[i];
  }
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

template <class Kv>
float weighted_value(const AttentionItem& item, const float* weights, size_t dimension) {
  float sum = 0.0F;
  for (size_t position = 0; position < item.context; ++position) {
    const auto block = static_cast<size_t>(item.blocks[position / item.block_size]);
    const Kv* values = static_cast<const Kv*>(item.values) + block * item.block_stride;
    const Kv value = values[position % item.block_size * item.head_dim + dimension];
    sum = std::fma(weights[position], to_float(value), sum);
  }
  return sum;
}

}  // namespace

template <class Kv>
void attend_reference(const AttentionItem& item) {
  for (size_t head = 0; head < item.num_heads; ++head) {
    const float* q = item.q + head * item.head_dim;
    float* out = item.out + head * item.head_dim;
    for (size_t position = 0; position < item.context; ++position) {
      item.scores[position] = score<Kv>(item, q, position);
    }
    const float sum = soften(item.scores, item.context);
    for (size_t d = 0; d < item.head_dim; ++d) {
      out[d] = weighted_value<Kv>(item, item.scores, d) / sum;
    }
  }
}

template void attend_reference<float>(const AttentionItem&);
template void attend_reference<Float16>(const AttentionItem&);
template void attend_reference<BFloat16>(const AttentionItem&);

}  // namespace millrace
