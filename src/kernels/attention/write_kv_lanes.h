// write_kv on sixteen lanes. See lanes.h for the rules of this file.
#pragma once

#include "kernels/attention/kv_layout_kernel.h"
#include "kernels/attention/write_kv_kernel.h"
#include "kernels/lanes.h"
#include "kernels/rms_norm_lanes.h"
#include "tensor/dtype.h"

namespace millrace {
namespace {

// Dimensions [i, i + n) and their partners; n < 16 at the end only.
template <class Lanes>
[[gnu::always_inline]] inline void rotate_lanes(
    float* head, size_t half, const float* cosines, size_t i, size_t n
) {
  const float* sines = cosines + half;
  float* partner = head + half;
  if (n == kLanes) {
    const Lanes first = Lanes::load(head + i);
    const Lanes second = Lanes::load(partner + i);
    const Lanes cosine = Lanes::load(cosines + i);
    const Lanes sine = Lanes::load(sines + i);
    Lanes::store(head + i, Lanes::fms(first, cosine, Lanes::mul(second, sine)));
    Lanes::store(partner + i, Lanes::fma(second, cosine, Lanes::mul(first, sine)));
  } else {
    const Lanes first = Lanes::load_first(head + i, n);
    const Lanes second = Lanes::load_first(partner + i, n);
    const Lanes cosine = Lanes::load_first(cosines + i, n);
    const Lanes sine = Lanes::load_first(sines + i, n);
    Lanes::store_first(head + i, Lanes::fms(first, cosine, Lanes::mul(second, sine)), n);
    Lanes::store_first(partner + i, Lanes::fma(second, cosine, Lanes::mul(first, sine)), n);
  }
}

template <class Lanes>
void normalize_and_rotate(const WriteKvTask& task, const float* norm, size_t token, float* head) {
  if (norm != nullptr) rms_norm_row<Lanes>(head, norm, task.norm_eps, task.head_dim, head);
  const size_t half = task.head_dim / 2;
  const float* cosines = task.rope + static_cast<size_t>(task.positions[token]) * task.head_dim;
  size_t i = 0;
  for (; i + kLanes <= half; i += kLanes) rotate_lanes<Lanes>(head, half, cosines, i, kLanes);
  if (i < half) rotate_lanes<Lanes>(head, half, cosines, i, half - i);
}

template <class Lanes, class Kv>
[[gnu::always_inline]] inline void round_lanes(Kv* out, const float* from, size_t n) {
  Lanes::store(out, n == kLanes ? Lanes::load(from) : Lanes::load_first(from, n));
}

// The key goes down a column of its block, the value along a row: see kv_view.h. Element by
// element where it lies between those of another token, which another thread may be writing.
template <class Lanes, class Kv>
void write_head(
    const WriteKvTask& task, size_t token, size_t kv_head, const float* key, const float* value
) {
  constexpr size_t kDepth = kKvDepth<Kv>;
  const auto slot = static_cast<size_t>(task.slots[token]);
  const size_t block = slot / task.block_size;
  const size_t offset = slot % task.block_size;
  const size_t begin = kv_head * task.head_stride + block * task.head_dim * task.block_size;
  Kv* keys = static_cast<Kv*>(task.keys) + begin + offset * kDepth;
  Kv* values = static_cast<Kv*>(task.values) + begin + offset / kDepth * kDepth * task.head_dim +
               offset % kDepth;
  for (size_t d = 0; d < task.head_dim; d += kLanes) {
    const size_t n = task.head_dim - d < kLanes ? task.head_dim - d : kLanes;
    Kv rounded[kLanes];
    round_lanes<Lanes>(rounded, key + d, n);
    for (size_t i = 0; i < n; i += kDepth) {
      for (size_t e = 0; e < kDepth; ++e) keys[(d + i) * task.block_size + e] = rounded[i + e];
    }
    if (kDepth == 1 && n == kLanes) {
      Lanes::store(values + d, Lanes::load(value + d));
      continue;
    }
    round_lanes<Lanes>(rounded, value + d, n);
    for (size_t i = 0; i < n; ++i) values[(d + i) * kDepth] = rounded[i];
  }
}

template <class Lanes, class Kv>
void write_kv_tokens(const WriteKvTask& task, size_t token_begin, size_t token_end) {
  for (size_t token = token_begin; token < token_end; ++token) {
    float* queries = task.qkv + token * task.qkv_stride;
    float* keys = queries + task.num_heads * task.head_dim;
    const float* values = keys + task.num_kv_heads * task.head_dim;
    for (size_t head = 0; head < task.num_heads; ++head) {
      normalize_and_rotate<Lanes>(task, task.q_norm, token, queries + head * task.head_dim);
    }
    for (size_t head = 0; head < task.num_kv_heads; ++head) {
      float* key = keys + head * task.head_dim;
      normalize_and_rotate<Lanes>(task, task.k_norm, token, key);
      write_head<Lanes, Kv>(task, token, head, key, values + head * task.head_dim);
    }
  }
}

}  // namespace
}  // namespace millrace
