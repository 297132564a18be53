#include "kernels/amx_tiles.h"
#include "kernels/machine_limits_kernel.h"

namespace millrace {
namespace {

// After the sums, the two factors.
static_assert(kDotSumsTile == 6);
constexpr int kLeft = 6;
constexpr int kRight = 7;

// One instruction takes sixteen cycles.
constexpr size_t kRoundsPerTileRound = 16;

// `Products`: add<kSums>(), one instruction; Sum, and `one`, of which the factors are made.
template <class Products>
uint64_t count_tile_products(size_t num_rounds) {
  TileShapes shapes;
  for (size_t tile = 0; tile < 8; ++tile) shapes.set(tile, kTileRows);
  const TileScope scope(shapes);
  alignas(64) typename Products::Factor ones[kTileBytes / sizeof(Products::one)];
  for (auto& one : ones) one = Products::one;
  load_tile<kLeft>(ones, kTileRowBytes);
  load_tile<kRight>(ones, kTileRowBytes);
  clear_tile<0>();
  clear_tile<1>();
  clear_tile<2>();
  clear_tile<3>();
  clear_tile<4>();
  clear_tile<5>();
  for (size_t round = 0; round < num_rounds / kRoundsPerTileRound; ++round) {
    Products::template add<0>();
    Products::template add<1>();
    Products::template add<2>();
    Products::template add<3>();
    Products::template add<4>();
    Products::template add<5>();
  }
  alignas(64)
      typename Products::Sum sums[kDotSumsTile][kTileBytes / sizeof(typename Products::Sum)];
  store_tile<0>(sums[0], kTileRowBytes);
  store_tile<1>(sums[1], kTileRowBytes);
  store_tile<2>(sums[2], kTileRowBytes);
  store_tile<3>(sums[3], kTileRowBytes);
  store_tile<4>(sums[4], kTileRowBytes);
  store_tile<5>(sums[5], kTileRowBytes);
  uint64_t total = 0;
  for (const auto& tile : sums) {
    for (const auto sum : tile) total += static_cast<uint64_t>(sum);
  }
  return total;
}

struct BFloat16Products {
  using Factor = uint16_t;
  using Sum = float;
  static constexpr Factor one = 0x3F80;
  template <int kSums>
  [[gnu::always_inline]] static void add() {
    add_pair_products<kSums, kLeft, kRight>();
  }
};

struct ByteProducts {
  using Factor = int8_t;
  using Sum = int32_t;
  static constexpr Factor one = 1;
  template <int kSums>
  [[gnu::always_inline]] static void add() {
    add_byte_products<kSums, kLeft, kRight>();
  }
};

}  // namespace

uint64_t count_tdpbf16ps_tile(size_t num_rounds) {
  return count_tile_products<BFloat16Products>(num_rounds);
}
uint64_t count_tdpbssd_tile(size_t num_rounds) {
  return count_tile_products<ByteProducts>(num_rounds);
}

}  // namespace millrace
