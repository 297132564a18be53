// The memory of all layers' keys and values, in blocks of a fixed number of token slots. Bytes
// only: which block belongs to whom is the scheduler's business. Owned by the model.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/attention/kv_view.h"
#include "model/config.h"
#include "model/forward_batch.h"
#include "tensor/buffer.h"

namespace millrace {

struct KvCacheOptions {
  DType dtype = DType::kFloat32;
  int32_t block_size = 16;  // token slots of a block, a multiple of 16
  int32_t num_blocks = 0;
};

// Keys and values of one token slot, of all layers.
[[nodiscard]] size_t kv_bytes_per_token(const ModelConfig& config, DType dtype);
// Of one block, of all layers.
[[nodiscard]] size_t kv_bytes_per_block(const ModelConfig& config, DType dtype, int32_t block_size);

class KvCache {
 public:
  KvCache() = default;

  // kInvalidArgument for a block size or number of blocks that cannot be (slots are numbered with
  // 32 bits), kResourceExhausted when there is no such memory.
  static Result<KvCache> allocate(const ModelConfig& config, const KvCacheOptions& options);

  const KvCacheOptions& options() const { return options_; }
  size_t num_bytes() const { return buffer_.num_bytes(); }

  KvView layer(size_t index);

  // Copies whole blocks in all layers, one after the other: a later copy reads what an earlier one
  // wrote. REQUIRES: blocks that exist, of each pair two different ones.
  void copy_blocks(std::span<const KvBlockCopy> copies, ThreadPool& pool);

 private:
  KvCacheOptions options_;
  size_t num_layers_ = 0;
  size_t num_kv_heads_ = 0;
  size_t head_dim_ = 0;
  Buffer buffer_;  // [num_layers][keys, values][num_kv_heads][num_blocks][...], see KvView
};

}  // namespace millrace
