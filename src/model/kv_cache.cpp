#include "model/kv_cache.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "kernels/lanes.h"

namespace millrace {

size_t kv_bytes_per_token(const ModelConfig& config, DType dtype) {
  return 2 * static_cast<size_t>(config.num_layers * config.kv_size()) * size_of(dtype);
}

size_t kv_bytes_per_block(const ModelConfig& config, DType dtype, int32_t block_size) {
  return kv_bytes_per_token(config, dtype) * static_cast<size_t>(block_size);
}

Result<KvCache> KvCache::allocate(const ModelConfig& config, const KvCacheOptions& options) {
  if (options.block_size <= 0 || options.block_size % static_cast<int32_t>(kLanes) != 0) {
    return invalid_argument(fmt::format(
        "the KV block size is {} tokens, expected a positive multiple of {}",
        options.block_size,
        kLanes
    ));
  }
  const int32_t num_blocks_max = std::numeric_limits<int32_t>::max() / options.block_size;
  if (options.num_blocks <= 0 || options.num_blocks > num_blocks_max) {
    return invalid_argument(fmt::format(
        "{} KV blocks of {} tokens, expected 1 to {}",
        options.num_blocks,
        options.block_size,
        num_blocks_max
    ));
  }
  const std::optional<size_t> bytes = checked_mul(
      kv_bytes_per_block(config, options.dtype, options.block_size),
      static_cast<size_t>(options.num_blocks)
  );
  if (!bytes) return invalid_argument("the KV cache's size does not fit in 64 bits");
  Result<Buffer> buffer = Buffer::allocate(*bytes);
  if (!buffer) return buffer.error();

  KvCache cache;
  cache.options_ = options;
  cache.num_layers_ = static_cast<size_t>(config.num_layers);
  cache.num_kv_heads_ = static_cast<size_t>(config.num_kv_heads);
  cache.head_dim_ = static_cast<size_t>(config.head_dim);
  cache.buffer_ = *std::move(buffer);
  return cache;
}

KvView KvCache::layer(size_t index) {
  CHECK(index < num_layers_, "a layer of the model");
  const size_t layer_bytes = buffer_.num_bytes() / num_layers_;
  std::byte* keys = buffer_.bytes().data() + index * layer_bytes;
  return {
      .dtype = options_.dtype,
      .keys = keys,
      .values = keys + layer_bytes / 2,
      .num_blocks = static_cast<size_t>(options_.num_blocks),
      .block_size = static_cast<size_t>(options_.block_size),
      .num_kv_heads = num_kv_heads_,
      .head_dim = head_dim_,
  };
}

void KvCache::copy_blocks(std::span<const KvBlockCopy> copies, ThreadPool& pool) {
  if (copies.empty()) return;
  // The keys of a layer and KV head lie apart from its values, heads from heads and layers from
  // layers: so many planes, in each of which a block is one stretch of bytes. Each thread takes
  // planes, so the copies keep their order.
  const size_t num_planes = 2 * num_layers_ * num_kv_heads_;
  const size_t plane_bytes = buffer_.num_bytes() / num_planes;
  const size_t block_bytes = plane_bytes / static_cast<size_t>(options_.num_blocks);
  for (const KvBlockCopy& copy : copies) {
    const bool exist = copy.from >= 0 && copy.from < options_.num_blocks && copy.to >= 0 &&
                       copy.to < options_.num_blocks;
    CHECK(exist && copy.from != copy.to, "a block that exists is copied to another one");
  }
  pool.parallel_for(num_planes, [&](size_t begin, size_t end) {
    for (size_t plane = begin; plane < end; ++plane) {
      std::byte* const blocks = buffer_.bytes().data() + plane * plane_bytes;
      for (const KvBlockCopy& copy : copies) {
        std::memcpy(
            blocks + static_cast<size_t>(copy.to) * block_bytes,
            blocks + static_cast<size_t>(copy.from) * block_bytes,
            block_bytes
        );
      }
    }
  });
}

}  // namespace millrace
