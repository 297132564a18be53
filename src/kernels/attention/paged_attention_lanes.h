// paged_attention on sixteen lanes: tiles of heads x positions for the scores, of heads x
// dimensions for the values, so that what is read of K and V serves several heads. See lanes.h for
// the rules of this file. A Shape gives the largest tiles: kHeads, kChunks (of 16 positions) and
// kDims (16 each).
#pragma once

#include "kernels/attention/paged_attention_kernel.h"
#include "kernels/exp_lanes.h"
#include "kernels/lanes.h"
#include "tensor/dtype.h"

namespace millrace {
namespace {

// Scores of kHeads heads against kChunks * 16 positions. Slots past the context are read, and their
// scores replaced later.
template <class Lanes, class Kv, size_t kHeads, size_t kChunks>
void score_tile(const AttentionItem& item, size_t head_begin, size_t chunk_begin) {
  const Kv* keys[kChunks];
  Lanes sums[kHeads][kChunks];
#pragma GCC unroll 4
  for (size_t chunk = 0; chunk < kChunks; ++chunk) {
    const size_t position = (chunk_begin + chunk) * kLanes;
    const auto block = static_cast<size_t>(item.blocks[position / item.block_size]);
    keys[chunk] =
        static_cast<const Kv*>(item.keys) + block * item.block_stride + position % item.block_size;
#pragma GCC unroll 4
    for (size_t head = 0; head < kHeads; ++head) sums[head][chunk] = Lanes::zero();
  }
  const float* q = item.q + head_begin * item.head_dim;
  for (size_t d = 0; d < item.head_dim; ++d) {
#pragma GCC unroll 4
    for (size_t chunk = 0; chunk < kChunks; ++chunk) {
      const Lanes key = Lanes::load(keys[chunk] + d * item.block_size);
#pragma GCC unroll 4
      for (size_t head = 0; head < kHeads; ++head) {
        const Lanes query = Lanes::broadcast(q[head * item.head_dim + d]);
        sums[head][chunk] = Lanes::fma(key, query, sums[head][chunk]);
      }
    }
  }
  const Lanes scale = Lanes::broadcast(item.scale);
#pragma GCC unroll 4
  for (size_t head = 0; head < kHeads; ++head) {
    float* scores = item.scores + (head_begin + head) * item.scores_stride + chunk_begin * kLanes;
#pragma GCC unroll 4
    for (size_t chunk = 0; chunk < kChunks; ++chunk) {
      Lanes::store(scores + chunk * kLanes, Lanes::mul(sums[head][chunk], scale));
    }
  }
}

template <class Lanes, class Shape, class Kv, size_t kHeads>
void score_heads(const AttentionItem& item, size_t head_begin) {
  const size_t num_chunks = item.scores_stride / kLanes;
  size_t chunk = 0;
  for (; chunk + Shape::kChunks <= num_chunks; chunk += Shape::kChunks) {
    score_tile<Lanes, Kv, kHeads, Shape::kChunks>(item, head_begin, chunk);
  }
  for (; chunk < num_chunks; ++chunk) score_tile<Lanes, Kv, kHeads, 1>(item, head_begin, chunk);
}

// Turns one head's scores into exponentials; returns their sum.
template <class Lanes>
float soften(float* scores, size_t size, size_t size_padded) {
  for (size_t i = size; i < size_padded; ++i) scores[i] = -__builtin_inff();
  Lanes largest = Lanes::broadcast(-__builtin_inff());
  for (size_t i = 0; i < size_padded; i += kLanes) {
    largest = Lanes::max(largest, Lanes::load(scores + i));
  }
  const Lanes shift = Lanes::broadcast(Lanes::max_of(largest));
  Lanes sums = Lanes::zero();
  for (size_t i = 0; i < size_padded; i += kLanes) {
    const Lanes weights = exp_lanes(Lanes::sub(Lanes::load(scores + i), shift));
    Lanes::store(scores + i, weights);
    sums = Lanes::add(sums, weights);
  }
  return Lanes::sum(sums);
}

// Dimensions [dim, dim + kDims * 16) of kHeads heads, or with kPartial [dim, dim + rest), rest
// < 16.
template <class Lanes, class Kv, size_t kHeads, size_t kDims, bool kPartial>
void value_tile(const AttentionItem& item, size_t head_begin, size_t dim) {
  const size_t rest = item.head_dim - dim;
  Lanes sums[kHeads][kDims];
#pragma GCC unroll 4
  for (size_t head = 0; head < kHeads; ++head) {
#pragma GCC unroll 4
    for (size_t i = 0; i < kDims; ++i) sums[head][i] = Lanes::zero();
  }
  const float* weights = item.scores + head_begin * item.scores_stride;
  for (size_t begin = 0; begin < item.context; begin += item.block_size) {
    const auto block = static_cast<size_t>(item.blocks[begin / item.block_size]);
    const Kv* values = static_cast<const Kv*>(item.values) + block * item.block_stride + dim;
    const size_t left = item.context - begin;
    const size_t count = left < item.block_size ? left : item.block_size;
    for (size_t j = 0; j < count; ++j) {
#pragma GCC unroll 4
      for (size_t i = 0; i < kDims; ++i) {
        const Kv* source = values + j * item.head_dim + i * kLanes;
        const Lanes value = kPartial ? Lanes::load_first(source, rest) : Lanes::load(source);
#pragma GCC unroll 4
        for (size_t head = 0; head < kHeads; ++head) {
          const Lanes weight = Lanes::broadcast(weights[head * item.scores_stride + begin + j]);
          sums[head][i] = Lanes::fma(weight, value, sums[head][i]);
        }
      }
    }
  }
#pragma GCC unroll 4
  for (size_t head = 0; head < kHeads; ++head) {
    float* out = item.out + (head_begin + head) * item.head_dim + dim;
    const Lanes sum = Lanes::broadcast(item.sums[head_begin + head]);
#pragma GCC unroll 4
    for (size_t i = 0; i < kDims; ++i) {
      const Lanes result = Lanes::div(sums[head][i], sum);
      if (kPartial) {
        Lanes::store_first(out + i * kLanes, result, rest);
      } else {
        Lanes::store(out + i * kLanes, result);
      }
    }
  }
}

template <class Lanes, class Shape, class Kv, size_t kHeads>
void weigh_heads(const AttentionItem& item, size_t head_begin) {
  size_t dim = 0;
  for (; dim + Shape::kDims * kLanes <= item.head_dim; dim += Shape::kDims * kLanes) {
    value_tile<Lanes, Kv, kHeads, Shape::kDims, false>(item, head_begin, dim);
  }
  for (; dim + kLanes <= item.head_dim; dim += kLanes) {
    value_tile<Lanes, Kv, kHeads, 1, false>(item, head_begin, dim);
  }
  if (dim < item.head_dim) value_tile<Lanes, Kv, kHeads, 1, true>(item, head_begin, dim);
}

template <class Lanes, class Shape, class Kv, size_t kHeads>
void attend_heads(const AttentionItem& item, size_t head_begin) {
  score_heads<Lanes, Shape, Kv, kHeads>(item, head_begin);
  for (size_t head = head_begin; head < head_begin + kHeads; ++head) {
    float* scores = item.scores + head * item.scores_stride;
    item.sums[head] = soften<Lanes>(scores, item.context, item.scores_stride);
  }
  weigh_heads<Lanes, Shape, Kv, kHeads>(item, head_begin);
}

template <class Lanes, class Shape, class Kv>
void attend_lanes(const AttentionItem& item) {
  size_t head = 0;
  for (; head + 4 <= item.num_heads && Shape::kHeads >= 4; head += 4) {
    attend_heads<Lanes, Shape, Kv, Shape::kHeads >= 4 ? 4 : 1>(item, head);
  }
  for (; head + 2 <= item.num_heads; head += 2) attend_heads<Lanes, Shape, Kv, 2>(item, head);
  for (; head < item.num_heads; ++head) attend_heads<Lanes, Shape, Kv, 1>(item, head);
}

}  // namespace
}  // namespace millrace
