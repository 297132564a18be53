// The KV cache of one layer on a device: borrowed memory of fixed-size blocks, bfloat16. CUDA-free.
//
//   keys     [num_blocks][num_kv_heads][block_size][head_dim]
//   values   [num_blocks][num_kv_heads][block_size][head_dim]
//
// Fewer than 2^32 rows of head_dim. Rows of a token lie whole: the tensor cores take sixteen
// positions or sixteen dimensions at once from either side. Not the layout of the CPU's cache
// (kernels/attention/kv_view.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::cuda {

struct KvBlocks {
  uint16_t* keys = nullptr;
  uint16_t* values = nullptr;
  size_t num_kv_heads = 0;
  size_t block_size = 0;  // token slots of a block
  size_t head_dim = 0;    // even, at most kHeadDimMax

  // Elements of one block's keys, and of its values.
  size_t block_stride() const { return num_kv_heads * block_size * head_dim; }

  friend bool operator==(const KvBlocks&, const KvBlocks&) = default;
};

constexpr size_t kHeadDimMax = 256;

}  // namespace millrace::cuda
