#include "kernels/attention/attention_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

namespace millrace {
namespace {

// Sequences of (first position, tokens).
struct Batch {
  explicit Batch(const std::vector<std::pair<int32_t, int32_t>>& sequences) {
    for (const auto& [first, num_tokens] : sequences) {
      for (int32_t i = 0; i < num_tokens; ++i) positions.push_back(first + i);
      cu_seqlens.push_back(static_cast<int32_t>(positions.size()));
    }
  }
  AttentionTiles::Options options(size_t num_threads, size_t num_kept_rows_max) const {
    return {
        .positions = positions,
        .cu_seqlens = cu_seqlens,
        .num_kv_heads = 2,
        .num_heads_per_kv_head = 7,
        .num_threads = num_threads,
        .num_kept_rows_max = num_kept_rows_max,
    };
  }

  std::vector<int32_t> positions;
  std::vector<int32_t> cu_seqlens = {0};
};

const std::vector<std::pair<int32_t, int32_t>> kMixed = {
    {0, 300}, {8191, 1}, {5000, 5}, {0, 1}, {255, 1}, {256, 2}, {0, 0}, {100, 13}};

// (KV head, token) of the batch -> for each split, how often it is computed.
using Coverage = std::map<std::pair<size_t, size_t>, std::vector<int>>;

Coverage coverage(const AttentionTiles& tiles, size_t num_threads) {
  Coverage coverage;
  for (size_t thread = 0; thread < num_threads; ++thread) {
    tiles.for_each_part(thread, [&](const TileOfBatch& tile, size_t begin, size_t end) {
      for (size_t i = 0; i < tile.num_tokens; ++i) {
        std::vector<int>& counts = coverage[{tile.kv_head, tile.token_begin + i}];
        counts.resize(tile.num_splits);
        for (size_t split = begin; split < end; ++split) ++counts[split];
      }
    });
  }
  return coverage;
}

TEST(AttentionTiles, ArePartedSoThatEachSplitIsComputedOnce) {
  const Batch batch(kMixed);
  for (const size_t num_threads : {1, 2, 3, 7, 64, 1000}) {
    for (const size_t num_kept_rows_max : {0, 7, 50, 100000}) {
      const AttentionTiles tiles(batch.options(num_threads, num_kept_rows_max));
      const Coverage found = coverage(tiles, num_threads);
      EXPECT_EQ(found.size(), 2 * batch.positions.size());
      for (const auto& [key, counts] : found) {
        const size_t context = static_cast<size_t>(batch.positions[key.second]) + 1;
        EXPECT_GE(counts.size() * kSplitPositions, context);
        for (const int count : counts) EXPECT_EQ(count, 1);
      }
    }
  }
}

TEST(AttentionTiles, NeverGiveAThreadMoreToKeepThanItCan) {
  const Batch batch(kMixed);
  for (const size_t num_threads : {2, 3, 7, 64}) {
    for (const size_t num_kept_rows_max : {0, 7, 50, 300}) {
      const AttentionTiles tiles(batch.options(num_threads, num_kept_rows_max));
      for (size_t thread = 0; thread < num_threads; ++thread) {
        tiles.for_each_part(thread, [&](const TileOfBatch& tile, size_t begin, size_t end) {
          if (begin == 0) return;
          EXPECT_LE((end - begin) * tile.num_rows, num_kept_rows_max);
        });
      }
    }
  }
}

TEST(AttentionTiles, AreDealtSoThatThreadsEndTogether) {
  // A prompt, whose later tokens cost more, and one long decode.
  for (const Batch& batch : {Batch({{0, 2048}}), Batch({{8191, 1}})}) {
    for (const size_t num_threads : {2, 3, 8}) {
      const AttentionTiles tiles(batch.options(num_threads, 100000));
      std::vector<size_t> costs(num_threads);
      for (size_t thread = 0; thread < num_threads; ++thread) {
        tiles.for_each_part(thread, [&](const TileOfBatch& tile, size_t begin, size_t end) {
          const auto first = static_cast<size_t>(batch.positions[tile.token_begin]);
          const size_t context = first + tile.num_tokens;
          const size_t num_positions =
              std::min(end * kSplitPositions, context) - begin * kSplitPositions;
          costs[thread] += tile.num_rows * num_positions;
        });
      }
      const size_t total = std::accumulate(costs.begin(), costs.end(), size_t{0});
      EXPECT_LT(*std::ranges::max_element(costs), total / num_threads * 11 / 10);
    }
  }
}

}  // namespace
}  // namespace millrace
