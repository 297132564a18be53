// The KV cache of one layer as the operators see it: borrowed memory of fixed-size blocks.
//
//            float32, float16           bfloat16
//   keys     [head_dim][block_size]     [head_dim / 2][block_size][2]    of each block
//   values   [block_size][head_dim]     [block_size / 2][head_dim][2]    of each KV head
//
// Blocks that follow each other lie together: a decode reads one KV head after the other, each as
// one stream as long as its blocks do (docs/decisions/0023).
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
  void* keys = nullptr;    // [num_kv_heads][num_blocks][...]
  void* values = nullptr;  // [num_kv_heads][num_blocks][...]
  size_t num_blocks = 0;
  size_t block_size = 0;
  size_t num_kv_heads = 0;
  size_t head_dim = 0;

  // Elements of a KV head's keys in one block, and of its values; of all its blocks; of all heads.
  size_t block_stride() const { return head_dim * block_size; }
  size_t head_stride() const { return num_blocks * block_stride(); }
  size_t num_elements() const { return num_kv_heads * head_stride(); }

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
