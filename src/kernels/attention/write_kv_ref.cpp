#include <cmath>

#include "kernels/attention/kv_layout_kernel.h"
#include "kernels/attention/write_kv_kernel.h"
#include "kernels/rms_norm_kernel.h"
#include "tensor/dtype.h"

namespace millrace {
namespace {

void round_to(float value, float& out) {
  out = value;
}
void round_to(float value, Float16& out) {
  out = to_float16(value);
}
void round_to(float value, BFloat16& out) {
  out = to_bfloat16(value);
}

void normalize_and_rotate(const WriteKvTask& task, const float* norm, size_t token, float* head) {
  if (norm != nullptr) rms_norm_row_reference(head, norm, task.norm_eps, task.head_dim, head);
  const size_t half = task.head_dim / 2;
  const float* cosines = task.rope + static_cast<size_t>(task.positions[token]) * task.head_dim;
  const float* sines = cosines + half;
  for (size_t i = 0; i < half; ++i) {
    const float first = head[i];
    const float second = head[i + half];
    head[i] = std::fma(first, cosines[i], -(second * sines[i]));
    head[i + half] = std::fma(second, cosines[i], first * sines[i]);
  }
}

template <class Kv>
void write_head(
    const WriteKvTask& task, size_t token, size_t kv_head, const float* key, const float* value
) {
  constexpr size_t kDepth = kKvDepth<Kv>;
  const auto slot = static_cast<size_t>(task.slots[token]);
  const size_t block = slot / task.block_size;
  const size_t offset = slot % task.block_size;
  const size_t begin = kv_head * task.head_stride + block * task.head_dim * task.block_size;
  Kv* keys = static_cast<Kv*>(task.keys) + begin;
  Kv* values = static_cast<Kv*>(task.values) + begin;
  for (size_t d = 0; d < task.head_dim; ++d) {
    round_to(key[d], keys[(d / kDepth * task.block_size + offset) * kDepth + d % kDepth]);
    round_to(value[d], values[(offset / kDepth * task.head_dim + d) * kDepth + offset % kDepth]);
  }
}

}  // namespace

template <class Kv>
void write_kv_reference(const WriteKvTask& task, size_t token_begin, size_t token_end) {
  for (size_t token = token_begin; token < token_end; ++token) {
    float* queries = task.qkv + token * task.qkv_stride;
    float* keys = queries + task.num_heads * task.head_dim;
    const float* values = keys + task.num_kv_heads * task.head_dim;
    for (size_t head = 0; head < task.num_heads; ++head) {
      normalize_and_rotate(task, task.q_norm, token, queries + head * task.head_dim);
    }
    for (size_t head = 0; head < task.num_kv_heads; ++head) {
      float* key = keys + head * task.head_dim;
      normalize_and_rotate(task, task.k_norm, token, key);
      write_head<Kv>(task, token, head, key, values + head * task.head_dim);
    }
  }
}

template void write_kv_reference<float>(const WriteKvTask&, size_t, size_t);
template void write_kv_reference<Float16>(const WriteKvTask&, size_t, size_t);
template void write_kv_reference<BFloat16>(const WriteKvTask&, size_t, size_t);

}  // namespace millrace
