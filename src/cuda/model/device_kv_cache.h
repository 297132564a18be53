// Keys and values of all layers on a device: bfloat16, in blocks of token slots. Which block
// belongs to whom is the scheduler's business; the last belongs to nobody and takes what padding
// writes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "cuda/device_buffer.h"
#include "cuda/kernels/copy_blocks.h"
#include "cuda/kernels/kv_blocks.h"
#include "cuda/stream.h"
#include "model/config.h"

namespace millrace::cuda {

class DeviceKvCache {
 public:
  struct Shape {
    int32_t block_size = 16;
    int32_t num_blocks = 0;
  };

  DeviceKvCache() = default;
  // kResourceExhausted: the device has not as much.
  static Result<DeviceKvCache> allocate(const ModelConfig& config, const Shape& shape);
  static size_t block_bytes(const ModelConfig& config, int32_t block_size);  // of all layers

  KvBlocks layer(size_t index) const;

  int32_t block_size() const { return shape_.block_size; }
  int32_t padding_slot() const { return shape_.num_blocks * shape_.block_size; }
  size_t num_bytes() const { return buffer_.num_bytes(); }

  // `copies`: [num_copies] on the device; one after the other, in all layers.
  void copy_blocks(StreamHandle stream, const BlockCopy* copies, size_t num_copies) const;

 private:
  size_t plane_bytes() const { return (static_cast<size_t>(shape_.num_blocks) + 1) * block_bytes_; }

  Shape shape_;
  size_t num_layers_ = 0;
  size_t num_kv_heads_ = 0;
  size_t head_dim_ = 0;
  size_t block_bytes_ = 0;  // of a plane
  DeviceBuffer buffer_;     // [num_layers][keys, values][num_blocks + 1][block]
};

}  // namespace millrace::cuda
