// What attention does with scores and with the results of splits, on sixteen lanes: exponentials,
// merging, the last division. See lanes.h for the rules of this file.
#pragma once

#include "kernels/attention/paged_attention_kernel.h"
#include "kernels/exp_lanes.h"
#include "kernels/lanes.h"

namespace millrace {
namespace {

constexpr float kScoreMax = __FLT_MAX__;

// The rows of a tile that see a split: those of tokens before it do not.
[[gnu::always_inline]] inline size_t first_row_of(const AttentionTile& tile, size_t split) {
  const size_t position = split * kSplitPositions;
  return position > tile.first_position ? (position - tile.first_position) * tile.num_heads : 0;
}

// A state from one row on: see paged_attention_kernel.h.
struct StateRows {
  float* maxima;
  float* sums;
  float* outputs;
};
[[gnu::always_inline]] inline StateRows state_rows(
    const AttentionTile& tile, size_t row, float* state
) {
  const size_t num_rows = tile.num_tokens * tile.num_heads;
  return {state + row, state + num_rows + row, state + 2 * num_rows + row * tile.head_dim};
}

template <class Lanes, class Product>
void encode_queries(const AttentionTile& tile) {
  auto* to = static_cast<typename Product::Operand*>(tile.queries);
  const Lanes scale = Lanes::broadcast(tile.scale);
  const size_t size = tile.num_heads * tile.head_dim;
  for (size_t token = 0; token < tile.num_tokens; ++token) {
    const float* from = tile.q + token * tile.q_stride;
    size_t i = 0;
    for (; i + kLanes <= size; i += kLanes) {
      Product::store(to + i, Lanes::mul(Lanes::load(from + i), scale));
    }
    if (i < size) {
      typename Product::Operand last[kLanes];
      Product::store(last, Lanes::mul(Lanes::load_first(from + i, size - i), scale));
      for (size_t j = 0; i + j < size; ++j) to[i + j] = last[j];
    }
    to += size;
  }
}

template <class Lanes>
[[gnu::always_inline]] inline float max_of_scores(const float* scores, size_t size) {
  Lanes even = Lanes::broadcast(-__builtin_inff());
  Lanes odd = even;
  for (size_t i = 0; i < size; i += 2 * kLanes) {
    even = Lanes::max(even, Lanes::load(scores + i));
    odd = Lanes::max(odd, Lanes::load(scores + i + kLanes));
  }
  return Lanes::max_of(Lanes::max(even, odd));
}

// Of one row's first `count` scores; the others, up to a multiple of 32, become -infinity, and
// those beyond the largest float become that.
template <class Lanes>
float largest_score(float* scores, size_t count) {
  const size_t size = (count + 2 * kLanes - 1) / (2 * kLanes) * (2 * kLanes);
  for (size_t i = count; i < size; ++i) scores[i] = -__builtin_inff();
  float largest = max_of_scores<Lanes>(scores, size);
  if (!(largest <= kScoreMax)) [[unlikely]] {
    const Lanes limit = Lanes::broadcast(kScoreMax);
    for (size_t i = 0; i < size; i += kLanes) {
      Lanes::store(scores + i, Lanes::min(limit, Lanes::load(scores + i)));
    }
    largest = max_of_scores<Lanes>(scores, size);
  }
  return largest < -kScoreMax ? -kScoreMax : largest;
}

// Turns one row's scores into exponentials of their differences to `largest`; returns the sum.
template <class Lanes, class Product>
float soften(const float* scores, size_t count, float largest, typename Product::Operand* weights) {
  const Lanes shift = Lanes::broadcast(largest);
  Lanes sums = Lanes::zero();
  for (size_t i = 0; i < count; i += 2 * kLanes) {
    const Lanes first = Product::exp(Lanes::sub(Lanes::load(scores + i), shift));
    const Lanes second = Product::exp(Lanes::sub(Lanes::load(scores + i + kLanes), shift));
    sums = Product::store_weights(weights + i, first, second, sums);
  }
  return Lanes::sum(sums);
}

// By what the old and the new part of each of up to 16 rows are multiplied when they are merged.
struct MergeFactors {
  float keep[kLanes];
  float add[kLanes];
};

inline void set_sums(
    const StateRows& state, const float* maxima, const float* sums, size_t num_rows
) {
  for (size_t row = 0; row < num_rows; ++row) {
    state.maxima[row] = maxima[row];
    state.sums[row] = sums[row];
  }
}

// `maxima` and `sums`: [16], of num_rows <= 16 rows.
template <class Lanes>
MergeFactors merge_sums(
    const StateRows& state, const float* maxima, const float* sums, size_t num_rows
) {
  float old_maxima[kLanes] = {};
  float old_sums[kLanes] = {};
  for (size_t row = 0; row < num_rows; ++row) {
    old_maxima[row] = state.maxima[row];
    old_sums[row] = state.sums[row];
  }
  const Lanes old_max = Lanes::load(old_maxima);
  const Lanes new_max = Lanes::load(maxima);
  const Lanes max = Lanes::max(old_max, new_max);
  const Lanes keep = exp_of_moderate(Lanes::sub(old_max, max));
  const Lanes add = exp_of_moderate(Lanes::sub(new_max, max));
  const Lanes sum = Lanes::fma(Lanes::load(sums), add, Lanes::mul(Lanes::load(old_sums), keep));
  MergeFactors factors;
  Lanes::store(factors.keep, keep);
  Lanes::store(factors.add, add);
  Lanes::store(old_maxima, max);
  Lanes::store(old_sums, sum);
  set_sums(state, old_maxima, old_sums, num_rows);
  return factors;
}

// Sixteen outputs of a row, or the first n.
template <class Lanes>
[[gnu::always_inline]] inline void merge_outputs(
    Lanes part, const MergeFactors& factors, size_t row, float* out, size_t n
) {
  const Lanes keep = Lanes::broadcast(factors.keep[row]);
  const Lanes add = Lanes::broadcast(factors.add[row]);
  if (n == kLanes) {
    Lanes::store(out, Lanes::fma(part, add, Lanes::mul(Lanes::load(out), keep)));
  } else {
    const Lanes old = Lanes::load_first(out, n);
    Lanes::store_first(out, Lanes::fma(part, add, Lanes::mul(old, keep)), n);
  }
}

// Likewise, where there may be nothing to merge with.
template <class Lanes>
[[gnu::always_inline]] inline void put_outputs(
    Lanes part, bool is_first, const MergeFactors& factors, size_t row, float* out, size_t n
) {
  if (!is_first) {
    merge_outputs(part, factors, row, out, n);
  } else if (n == kLanes) {
    Lanes::store(out, part);
  } else {
    Lanes::store_first(out, part, n);
  }
}

template <class Lanes>
void merge_split_lanes(const AttentionTile& tile, size_t split, const float* part, float* state) {
  const size_t num_rows = tile.num_tokens * tile.num_heads;
  for (size_t begin = first_row_of(tile, split); begin < num_rows; begin += kLanes) {
    const size_t count = num_rows - begin < kLanes ? num_rows - begin : kLanes;
    const StateRows at = state_rows(tile, begin, state);
    float maxima[kLanes] = {};
    float sums[kLanes] = {};
    for (size_t row = 0; row < count; ++row) {
      maxima[row] = part[begin + row];
      sums[row] = part[num_rows + begin + row];
    }
    const MergeFactors factors = merge_sums<Lanes>(at, maxima, sums, count);
    const float* outputs = part + 2 * num_rows + begin * tile.head_dim;
    for (size_t row = 0; row < count; ++row) {
      for (size_t d = 0; d < tile.head_dim; d += kLanes) {
        const size_t index = row * tile.head_dim + d;
        const size_t n = tile.head_dim - d < kLanes ? tile.head_dim - d : kLanes;
        const Lanes values =
            n == kLanes ? Lanes::load(outputs + index) : Lanes::load_first(outputs + index, n);
        merge_outputs(values, factors, row, at.outputs + index, n);
      }
    }
  }
}

template <class Lanes>
void finish_tile_lanes(const AttentionTile& tile, const float* state) {
  const size_t num_rows = tile.num_tokens * tile.num_heads;
  for (size_t row = 0; row < num_rows; ++row) {
    const float* outputs = state + 2 * num_rows + row * tile.head_dim;
    float* out =
        tile.out + row / tile.num_heads * tile.out_stride + row % tile.num_heads * tile.head_dim;
    const float sum = state[num_rows + row];
    // Without a score above -infinity the outputs are zero, and stay so.
    const Lanes divisor = Lanes::broadcast(sum == 0.0F ? 1.0F : sum);
    size_t d = 0;
    for (; d + kLanes <= tile.head_dim; d += kLanes) {
      Lanes::store(out + d, Lanes::div(Lanes::load(outputs + d), divisor));
    }
    if (d < tile.head_dim) {
      const size_t n = tile.head_dim - d;
      Lanes::store_first(out + d, Lanes::div(Lanes::load_first(outputs + d, n), divisor), n);
    }
  }
}

}  // namespace
}  // namespace millrace
