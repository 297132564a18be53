#include "model/kv_cache.h"

#include <gtest/gtest.h>

#include <cstring>

#include "model/model_test_data.h"

namespace millrace {
namespace {

constexpr int32_t kNumBlocks = 5;

// One block's keys (or values) of one layer.
std::span<std::byte> block_bytes(const KvView& view, void* plane, int32_t block) {
  const size_t num_bytes = view.block_stride() * size_of(view.dtype);
  return {static_cast<std::byte*>(plane) + static_cast<size_t>(block) * num_bytes, num_bytes};
}

// The byte that fills a block of a layer's keys or values: another one for each.
std::byte mark(size_t layer, bool is_values, int32_t block) {
  return static_cast<std::byte>(1 + block + kNumBlocks * static_cast<int32_t>(2 * layer)) ^
         static_cast<std::byte>(is_values ? 0x80 : 0);
}

KvCache marked_cache(const ModelConfig& config, DType dtype) {
  KvCache cache =
      *KvCache::allocate(config, {.dtype = dtype, .block_size = 16, .num_blocks = kNumBlocks});
  for (size_t layer = 0; layer < static_cast<size_t>(config.num_layers); ++layer) {
    const KvView view = cache.layer(layer);
    for (int32_t block = 0; block < kNumBlocks; ++block) {
      std::ranges::fill(block_bytes(view, view.keys, block), mark(layer, false, block));
      std::ranges::fill(block_bytes(view, view.values, block), mark(layer, true, block));
    }
  }
  return cache;
}

// CHECKs that each block holds, in all layers and whole, what block origins[block] held at first.
void expect_blocks(KvCache& cache, const ModelConfig& config, std::vector<int32_t> origins) {
  const auto is_filled = [](std::span<const std::byte> bytes, std::byte value) {
    return std::ranges::all_of(bytes, [value](std::byte byte) { return byte == value; });
  };
  for (size_t layer = 0; layer < static_cast<size_t>(config.num_layers); ++layer) {
    const KvView view = cache.layer(layer);
    for (int32_t block = 0; block < kNumBlocks; ++block) {
      const int32_t origin = origins[static_cast<size_t>(block)];
      EXPECT_TRUE(is_filled(block_bytes(view, view.keys, block), mark(layer, false, origin)))
          << "keys of layer " << layer << ", block " << block;
      EXPECT_TRUE(is_filled(block_bytes(view, view.values, block), mark(layer, true, origin)))
          << "values of layer " << layer << ", block " << block;
    }
  }
}

TEST(KvCache, CopiesWholeBlocksOfAllLayersInOrderAndNothingElse) {
  const ModelConfig config = tiny_config(ModelFamily::kQwen3);
  for (const size_t num_threads : {1U, 2U, 7U}) {
    ThreadPool pool(num_threads);
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
      KvCache cache = marked_cache(config, dtype);
      cache.copy_blocks({}, pool);
      expect_blocks(cache, config, {0, 1, 2, 3, 4});
      const KvBlockCopy copies[] = {{.from = 4, .to = 0}, {.from = 0, .to = 2}, {1, 0}};
      cache.copy_blocks(copies, pool);
      expect_blocks(cache, config, {1, 1, 4, 3, 4});
    }
  }
}

}  // namespace
}  // namespace millrace
