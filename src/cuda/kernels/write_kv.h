// What happens to the projected q, k and v of each token before attention, on a device: an rms_norm
// of each head of q and k (Qwen3), the rotation by the token's position, and the write of k and v
// to the cache. (A decode's attention does it by itself: decode_attention(), paged_attention.h.)
//
// The rotation is the rotate-half form, as in kernels/attention/write_kv.h: with h = head_dim / 2,
// dimensions i and i + h become x_i cos - x_(i+h) sin and x_(i+h) cos + x_i sin; the second product
// is rounded, the first fused. The norm adds squares in 32 lanes, lane i taking dimensions i,
// i + 32, ..., each product fused, and the lanes in halves; then x * factor * weight.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/kv_blocks.h"
#include "cuda/stream.h"

namespace millrace::cuda {

struct WriteKvArgs {
  // [num_tokens, (num_heads + 2 * num_kv_heads) * head_dim], device: the heads of q, then of k,
  // then of v, biases included.
  const float* qkv = nullptr;
  size_t num_tokens = 0;
  size_t num_heads = 0;
  const float* q_norm = nullptr;  // [head_dim], device; null: no normalization
  const float* k_norm = nullptr;  // likewise
  float norm_eps = 0.0F;
  const float* rope = nullptr;         // [num_positions][2][head_dim / 2], device: kernels/rope.h
  const int32_t* positions = nullptr;  // [num_tokens], device, within the rope table
  const int32_t* slots = nullptr;  // [num_tokens], device, block * block_size + offset, each once
  KvBlocks cache;                  // k and v are rounded to nearest, ties to even
  // [num_tokens, num_heads * head_dim], device, bfloat16: q, normalized, rotated, and multiplied by
  // q_scale before it is rounded. What paged_attention reads.
  uint16_t* q = nullptr;
  float q_scale = 1.0F;  // 1 / sqrt(head_dim)
};

// No tokens: nothing happens.
void write_kv(StreamHandle stream, const WriteKvArgs& args);

}  // namespace millrace::cuda
