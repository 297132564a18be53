// Copies of whole KV blocks in all layers, one after the other, on a device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/stream.h"

namespace millrace::cuda {

// As model/forward_batch.h has it.
struct BlockCopy {
  int32_t from = 0;
  int32_t to = 0;
};

struct CopyBlocksArgs {
  // [num_planes][num_blocks][block_bytes], device: a plane holds the keys or the values of a layer.
  void* planes = nullptr;
  size_t num_planes = 0;
  size_t plane_bytes = 0;  // from a plane to the next, a multiple of 16
  size_t block_bytes = 0;  // a multiple of 16
  // [num_copies], device: blocks that exist, of each pair two different ones. A later copy reads
  // what an earlier one wrote.
  const BlockCopy* copies = nullptr;
  size_t num_copies = 0;
};

// No copies: nothing happens.
void copy_blocks(StreamHandle stream, const CopyBlocksArgs& args);

}  // namespace millrace::cuda
