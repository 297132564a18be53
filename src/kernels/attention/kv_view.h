// The KV cache of one layer as the operators see it: borrowed memory of fixed-size blocks.
//
//   keys    [num_blocks][num_kv_heads][head_dim][block_size]
//   values  [num_blocks][num_kv_heads][block_size][head_dim]
//
// Keys lie transposed, so that the scores of 16 consecutive tokens come out of one register, each
// summed over head_dim in ascending order. block_size is a multiple of 16.
#pragma once

#include <cstddef>

#include "tensor/dtype.h"

namespace millrace {

struct KvView {
  DType dtype = DType::kFloat32;
  void* keys = nullptr;
  void* values = nullptr;
  size_t num_blocks = 0;
  size_t block_size = 0;
  size_t num_kv_heads = 0;
  size_t head_dim = 0;

  // Elements of one block's keys, and of its values.
  size_t block_stride() const { return num_kv_heads * head_dim * block_size; }
};

}  // namespace millrace
