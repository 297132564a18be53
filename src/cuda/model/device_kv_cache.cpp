#include "cuda/model/device_kv_cache.h"

#include <cstdint>
#include <optional>

#include "base/math.h"
#include "cuda/kernels/copy_blocks.h"

namespace millrace::cuda {
namespace {

size_t plane_block_bytes(const ModelConfig& config, int32_t block_size) {
  return static_cast<size_t>(config.kv_size() * block_size) * sizeof(uint16_t);
}

}  // namespace

size_t DeviceKvCache::block_bytes(const ModelConfig& config, int32_t block_size) {
  return 2 * static_cast<size_t>(config.num_layers) * plane_block_bytes(config, block_size);
}

Result<DeviceKvCache> DeviceKvCache::allocate(const ModelConfig& config, const Shape& shape) {
  if (shape.block_size <= 0 || shape.block_size % 16 != 0) {
    return invalid_argument("a KV block has a multiple of 16 token slots", "block_size");
  }
  const int64_t num_slots = (int64_t{shape.num_blocks} + 1) * shape.block_size;
  if (shape.num_blocks <= 0 || num_slots > INT32_MAX) {
    return invalid_argument("1 to 2^31 - 1 token slots, with one block for padding", "num_blocks");
  }
  if (num_slots > UINT32_MAX / int64_t{config.num_kv_heads}) {
    return invalid_argument("fewer than 2^32 token slots of all heads", "num_blocks");
  }
  const auto num_blocks = static_cast<size_t>(shape.num_blocks) + 1;
  const std::optional<size_t> num_bytes =
      checked_mul(num_blocks, block_bytes(config, shape.block_size));
  if (!num_bytes) return invalid_argument("the KV cache's size does not fit in 64 bits");
  Result<DeviceBuffer> buffer = DeviceBuffer::allocate(*num_bytes);
  if (!buffer) return buffer.error();
  DeviceKvCache cache;
  cache.shape_ = shape;
  cache.num_layers_ = static_cast<size_t>(config.num_layers);
  cache.num_kv_heads_ = static_cast<size_t>(config.num_kv_heads);
  cache.head_dim_ = static_cast<size_t>(config.head_dim);
  cache.block_bytes_ = plane_block_bytes(config, shape.block_size);
  cache.buffer_ = *std::move(buffer);
  return cache;
}

KvBlocks DeviceKvCache::layer(size_t index) const {
  return {
      .keys = buffer_.as<uint16_t>(2 * index * plane_bytes()),
      .values = buffer_.as<uint16_t>((2 * index + 1) * plane_bytes()),
      .num_kv_heads = num_kv_heads_,
      .block_size = static_cast<size_t>(shape_.block_size),
      .head_dim = head_dim_,
  };
}

void DeviceKvCache::copy_blocks(StreamHandle stream, const BlockCopy* copies, size_t num_copies)
    const {
  cuda::copy_blocks(
      stream,
      {.planes = buffer_.data(),
       .num_planes = 2 * num_layers_,
       .plane_bytes = plane_bytes(),
       .block_bytes = block_bytes_,
       .copies = copies,
       .num_copies = num_copies}
  );
}

}  // namespace millrace::cuda
