// What write_kv.cpp asks of each instruction set. Plain data only (lanes.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace {

struct WriteKvTask {
  float* qkv;  // [num_tokens, (num_heads + 2 * num_kv_heads) * head_dim], rows qkv_stride apart
  size_t qkv_stride;
  size_t num_heads;
  size_t num_kv_heads;
  size_t head_dim;
  const float* q_norm;  // [head_dim] or null
  const float* k_norm;  // [head_dim] or null
  float norm_eps;
  const float* rope;         // [num_positions][2][head_dim / 2], see rope.h
  const int32_t* positions;  // [num_tokens]
  const int32_t* slots;      // [num_tokens]
  void* keys;                // see kv_view.h
  void* values;
  size_t head_stride;  // elements from a KV head to the next
  size_t block_size;
};

// Kv: float, Float16 or BFloat16.
template <class Kv>
void write_kv_reference(const WriteKvTask& task, size_t token_begin, size_t token_end);
template <class Kv>
void write_kv_avx2(const WriteKvTask& task, size_t token_begin, size_t token_end);
template <class Kv>
void write_kv_avx512(const WriteKvTask& task, size_t token_begin, size_t token_end);

}  // namespace millrace
