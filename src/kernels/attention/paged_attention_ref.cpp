#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/attention/kv_layout_kernel.h"
#include "kernels/attention/paged_attention_kernel.h"
#include "kernels/exp.h"
#include "kernels/lanes.h"
#include "tensor/dtype.h"

namespace millrace {
namespace {

constexpr float kScoreMax = std::numeric_limits<float>::max();

// As the products of a kind of keys and values take q and the exponentials.
template <class Kv>
float operand(float x) {
  return x;
}
template <>
float operand<BFloat16>(float x) {
  return to_float(to_bfloat16(x));
}

// Of a score, by its difference to the largest of its row.
template <class Kv>
float weight(float difference) {
  return exp_reference(difference);
}
template <>
float weight<BFloat16>(float difference) {
  return operand<BFloat16>(coarse_exp_reference(difference));
}

// One row of a tile in one split.
template <class Kv>
struct RowOfSplit {
  static constexpr size_t kDepth = kKvDepth<Kv>;

  const AttentionTile& tile;
  size_t row;
  size_t position;  // of the split's first
  size_t count;     // positions that the row sees

  float key(size_t i, size_t dimension) const {
    const size_t offset = (position + i) % tile.block_size;
    const size_t index =
        (dimension / kDepth * tile.block_size + offset) * kDepth + dimension % kDepth;
    return to_float(static_cast<const Kv*>(tile.keys)[block_begin(i) + index]);
  }
  // Zero where the row sees nothing.
  float value(size_t i, size_t dimension) const {
    if (i >= count) return 0.0F;
    const size_t offset = (position + i) % tile.block_size;
    const size_t index = (offset / kDepth * tile.head_dim + dimension) * kDepth + offset % kDepth;
    return to_float(static_cast<const Kv*>(tile.values)[block_begin(i) + index]);
  }

 private:
  size_t block_begin(size_t i) const {
    return static_cast<size_t>(tile.blocks[(position + i) / tile.block_size]) * tile.block_stride;
  }
};

// A row's result: see paged_attention_kernel.h.
struct RowSums {
  float maximum;
  float sum;
};

// The orders of a sum of `count` products: sum(count, step, product) adds up product(i, sum), which
// is products i of a row fused into a sum. `step`: what one instruction of AMX takes.
template <class Kv>
struct InTurn {
  using Element = Kv;

  template <class Product>
  static float sum(size_t count, size_t, const Product& product) {
    constexpr size_t kDepth = kKvDepth<Kv>;
    float sum = 0.0F;
    for (size_t i = 0; i < count; i += kDepth) {
      for (size_t e = kDepth; e-- > 0;) sum = product(i + e, sum);
    }
    return sum;
  }
};
struct InSteps {
  using Element = BFloat16;

  template <class Product>
  static float sum(size_t count, size_t step, const Product& product) {
    float sum = 0.0F;
    for (size_t begin = 0; begin < count; begin += step) {
      float even = 0.0F;
      float odd = 0.0F;
      for (size_t i = begin; i < std::min(begin + step, count); i += 2) {
        even = product(i, even);
        odd = product(i + 1, odd);
      }
      sum += even + odd;
    }
    return sum + 0.0F;  // a difference that was flushed to -0 becomes 0
  }
};
constexpr size_t kStepDimensions = 32;
constexpr size_t kStepPositions = 16;

template <class Order, class Kv>
float score(const RowOfSplit<Kv>& row, size_t i) {
  const AttentionTile& tile = row.tile;
  const float* q =
      tile.q + row.row / tile.num_heads * tile.q_stride + row.row % tile.num_heads * tile.head_dim;
  const auto product = [&](size_t d, float sum) {
    return std::fma(row.key(i, d), operand<Kv>(q[d] * tile.scale), sum);
  };
  return std::min(kScoreMax, Order::sum(tile.head_dim, kStepDimensions, product));
}

// In lanes that each take a unit of kKvDepth in turn, the last of a unit first.
template <class Kv>
float sum_in_lanes(const std::array<float, kSplitPositions>& weights) {
  constexpr size_t kDepth = kKvDepth<Kv>;
  std::array<float, kLanes> sums = {};
  for (size_t i = 0; i < kSplitPositions; i += kDepth) {
    for (size_t e = kDepth; e-- > 0;) sums[i / kDepth % kLanes] += weights[i + e];
  }
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

// `outputs`: [head_dim].
template <class Order, class Kv>
RowSums attend_row(const RowOfSplit<Kv>& row, float* outputs) {
  std::array<float, kSplitPositions> weights = {};
  float maximum = -kScoreMax;
  for (size_t i = 0; i < row.count; ++i) {
    weights[i] = score<Order>(row, i);
    maximum = std::max(maximum, weights[i]);
  }
  for (size_t i = 0; i < row.count; ++i) {
    weights[i] = weight<Kv>(weights[i] - maximum);
  }
  for (size_t d = 0; d < row.tile.head_dim; ++d) {
    outputs[d] = Order::sum(row.count, kStepPositions, [&](size_t i, float sum) {
      return std::fma(row.value(i, d), weights[i], sum);
    });
  }
  return {maximum, sum_in_lanes<Kv>(weights)};
}

void merge_row(
    const AttentionTile& tile, size_t row, RowSums part, const float* part_outputs, float* state
) {
  const size_t num_rows = tile.num_tokens * tile.num_heads;
  float& old_maximum = state[row];
  float& old_sum = state[num_rows + row];
  float* outputs = state + 2 * num_rows + row * tile.head_dim;
  const float maximum = std::max(old_maximum, part.maximum);
  const float keep = exp_reference(old_maximum - maximum);
  const float add = exp_reference(part.maximum - maximum);
  old_maximum = maximum;
  old_sum = std::fma(part.sum, add, old_sum * keep);
  for (size_t d = 0; d < tile.head_dim; ++d) {
    outputs[d] = std::fma(part_outputs[d], add, outputs[d] * keep);
  }
}

size_t first_row_of(const AttentionTile& tile, size_t split) {
  const size_t position = split * kSplitPositions;
  return position > tile.first_position ? (position - tile.first_position) * tile.num_heads : 0;
}

template <class Order>
void attend_in(const AttentionTile& tile, size_t split_begin, size_t split_end, float* results) {
  using Kv = typename Order::Element;
  const size_t num_rows = tile.num_tokens * tile.num_heads;
  for (size_t split = split_begin; split < split_end; ++split) {
    const size_t position = split * kSplitPositions;
    for (size_t row = first_row_of(tile, split); row < num_rows; ++row) {
      const size_t seen = tile.first_position + row / tile.num_heads + 1 - position;
      const RowOfSplit<Kv> of_split = {tile, row, position, std::min(seen, kSplitPositions)};
      std::array<float, kHeadDimMax> outputs;
      const RowSums sums = attend_row<Order>(of_split, outputs.data());
      if (split == 0 || split_begin > 0) {
        results[row] = sums.maximum;
        results[num_rows + row] = sums.sum;
        std::copy_n(outputs.data(), tile.head_dim, results + 2 * num_rows + row * tile.head_dim);
      } else {
        merge_row(tile, row, sums, outputs.data(), results);
      }
    }
    if (split_begin > 0) results += num_rows * (2 + tile.head_dim);
  }
}

}  // namespace

template <class Kv>
void attend_reference(
    const AttentionTile& tile, size_t split_begin, size_t split_end, float* results
) {
  attend_in<InTurn<Kv>>(tile, split_begin, split_end, results);
}

void attend_amx_reference(
    const AttentionTile& tile, size_t split_begin, size_t split_end, float* results
) {
  attend_in<InSteps>(tile, split_begin, split_end, results);
}

void merge_split_reference(
    const AttentionTile& tile, size_t split, const float* part, float* state
) {
  const size_t num_rows = tile.num_tokens * tile.num_heads;
  for (size_t row = first_row_of(tile, split); row < num_rows; ++row) {
    const float* outputs = part + 2 * num_rows + row * tile.head_dim;
    merge_row(tile, row, {part[row], part[num_rows + row]}, outputs, state);
  }
}

void finish_tile_reference(const AttentionTile& tile, const float* state) {
  const size_t num_rows = tile.num_tokens * tile.num_heads;
  for (size_t row = 0; row < num_rows; ++row) {
    float* out =
        tile.out + row / tile.num_heads * tile.out_stride + row % tile.num_heads * tile.head_dim;
    const float sum = state[num_rows + row];
    for (size_t d = 0; d < tile.head_dim; ++d) {
      out[d] = state[2 * num_rows + row * tile.head_dim + d] / (sum == 0.0F ? 1.0F : sum);
    }
  }
}

template void attend_reference<float>(const AttentionTile&, size_t, size_t, float*);
template void attend_reference<Float16>(const AttentionTile&, size_t, size_t, float*);
template void attend_reference<BFloat16>(const AttentionTile&, size_t, size_t, float*);

}  // namespace millrace
