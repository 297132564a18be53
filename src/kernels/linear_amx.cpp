#include <immintrin.h>

#include "kernels/linear_kernel.h"
#include "kernels/packed_bfloat16_avx512.h"
#include "kernels/packed_bfloat16_hints.h"
#include "kernels/tile_product_amx.h"

namespace millrace {
namespace {

// How far ahead hints ask for weights: 6 to 20 blocks are within 3 % of each other, 32 take 1.1
// times as long.
constexpr size_t kBlocksAhead = 12;

// An input of a task, which lie in tiles.
struct InputInTile {
  const LinearTask& task;

  float operator()(size_t token, size_t column) const {
    constexpr size_t kColumns = kInputTileColumns;
    const size_t num_tiles = num_steps_of<BFloat16Products>(task);
    const size_t tile = token / kTileRows * num_tiles + column / kColumns;
    const size_t place = token % kTileRows * kColumns + column % kColumns;
    return widened(static_cast<const BFloat16*>(task.x)[tile * task.x_stride + place]);
  }
};

// Weights in 12 bits (packed_bfloat16.h).
struct PackedWeights {
  using Products = BFloat16Products;
  static constexpr size_t kBlockInputs = kPackedBlockColumns;
  static constexpr size_t kPanelsAtOnce = 4;

  [[gnu::always_inline]] static void unpack(
      const LinearTask& task, size_t panel, size_t index, size_t num_panels, BFloat16* out
  ) {
    const uint8_t* data = static_cast<const uint8_t*>(task.weights) + panel * task.panel_size;
    const size_t offset = kPackedTableBytes + index * kPackedBlockBytes;
    const uint8_t* block = data + offset;
    if (index * kBlockInputs >= task.num_inputs) {
      for (size_t i = 0; i < kBlockInputs * kLanes; i += 32) {
        _mm512_storeu_si512(out + i, _mm512_setzero_si512());
      }
      return;
    }
    ask_for_block<2>(hint_at(task, block, offset, kBlocksAhead * kPackedBlockBytes, num_panels));
    unpack_block(_mm512_loadu_si512(data), block, out);
  }

  static void finish_sums(const LinearTask& task, const TilePlace& place, float* sums) {
    if (task.exceptions != nullptr) add_exceptions(task, place, sums, InputInTile{task});
  }
};

}  // namespace

void linear_amx(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  multiply_by_tiles<PackedWeights>(task, panel_begin, panel_end);
}

}  // namespace millrace
