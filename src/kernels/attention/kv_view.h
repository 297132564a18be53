// The KV cache of one layer as the operators see it: borrowed memory of fixed-size blocks.
//
//            float32, float16           bfloat16
//   keys     [head_dim][block_size]     [head_dim / 2][block_size][2]    of each KV head
//   values   [block_size][head_dim]     [block_size / 2][head_dim][2]    of each block
//
// Keys lie transposed, so that the scores of 16 consecutive positions come out of one register.
// In bfloat16 two neighbours along what is summed lie together: two dimensions of a key, two
// positions of a value. block_size is a multiple of 16, head_dim is even.
#pragma once

#include <cstddef>

#include "kernels/attention/kv_layout_kernel.h"
#include "tensor/dtype.h"

namespace millrace {

struct KvView {
  DType dtype = DType::kFloat32;
  void* keys = nullptr;    // [num_blocks][num_kv_heads][...]
  void* values = nullptr;  // [num_blocks][num_kv_heads][...]
  size_t num_blocks = 0;
  size_t block_size = 0;
  size_t num_kv_heads = 0;
  size_t head_dim = 0;

  // Elements of one block's keys, and of its values.
  size_t block_stride() const { return num_kv_heads * head_dim * block_size; }

  // Where an element stands, counted from the first of its KV head in its block. `offset`: of the
  // token slot in the block.
  size_t key_index(size_t offset, size_t dimension) const {
    return (dimension / depth() * block_size + offset) * depth() + dimension % depth();
  }
  size_t value_index(size_t offset, size_t dimension) const {
    return (offset / depth() * head_dim + dimension) * depth() + offset % depth();
  }

 private:
  size_t depth() const { return dtype == DType::kBFloat16 ? kKvDepth<BFloat16> : kKvDepth<float>; }
};

}  // namespace millrace
