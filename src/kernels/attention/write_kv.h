// What happens to the projected q, k and v of each token before attention: an rms_norm of each head
// of q and k (Qwen3), the rotation by the token's position, and the write of k and v to the cache.
//
// The rotation is the rotate-half form: with h = head_dim / 2, dimensions i and i + h become
// x_i cos - x_(i+h) sin and x_(i+h) cos + x_i sin; the second product is rounded, the first fused.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention/kv_view.h"
#include "kernels/executor.h"
#include "kernels/rope.h"
#include "kernels/rows.h"

namespace millrace {

struct WriteKvArgs {
  // [num_tokens, (num_heads + 2 * num_kv_heads) * head_dim]: the heads of q, then of k, then of v.
  // q and k are normalized and rotated in place.
  Rows qkv;
  size_t num_heads = 0;
  std::span<const float> q_norm;  // [head_dim], or empty: no normalization
  std::span<const float> k_norm;  // likewise
  float norm_eps = 0.0F;
  const RopeTable& rope;
  std::span<const int32_t> positions;  // [num_tokens], within the rope table
  std::span<const int32_t> slots;      // [num_tokens], block * block_size + offset, each once
  KvView cache;                        // k and v are rounded to its type, to nearest, ties to even
};

void write_kv(const Executor& executor, const WriteKvArgs& args);

}  // namespace millrace
