// The tile registers of AMX: eight of 16 rows of 64 bytes, which belong to a thread. As assembly,
// so that no flag is wanted and the compiler knows that memory is read and written, which the
// intrinsics of g++ 12 do not tell it. See lanes.h for the rules of this file.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace {
namespace {

constexpr size_t kNumTiles = 8;
constexpr size_t kTileRows = 16;
constexpr size_t kTileRowBytes = 64;
constexpr size_t kTileBytes = kTileRows * kTileRowBytes;

// The rows of each register, and their bytes.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  constexpr void set(size_t tile, size_t num_rows, size_t num_row_bytes = kTileRowBytes) {
    row_bytes[tile] = static_cast<uint16_t>(num_row_bytes);
    rows[tile] = static_cast<uint8_t>(num_rows);
  }
};

// While it exists the calling thread's tiles have these shapes; afterwards none, so that nothing
// has to be saved when another thread runs.
class TileScope {
 public:
  [[gnu::always_inline]] explicit TileScope(const TileShapes& shapes) {
    asm volatile("ldtilecfg %0" : : "m"(shapes));
  }
  [[gnu::always_inline]] ~TileScope() { asm volatile("tilerelease"); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

// Rows `stride` bytes apart.
template <int kTile>
[[gnu::always_inline]] inline void load_tile(const void* data, size_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(data), "r"(stride), "i"(kTile) : "memory");
}
// The same for rows that pass by once: they do not push out what the first cache holds.
template <int kTile>
[[gnu::always_inline]] inline void load_passing_tile(const void* data, size_t stride) {
  asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" : : "r"(data), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
[[gnu::always_inline]] inline void store_tile(void* data, size_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(data), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
[[gnu::always_inline]] inline void clear_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}

// sums[m][n] += the products of the bytes 4k .. 4k + 3 of left[m] and of right[k][4n .. 4n + 3],
// for all k: int32 += int8 * int8, exact.
template <int kSums, int kLeft, int kRight>
[[gnu::always_inline]] inline void add_byte_products() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kLeft), "i"(kRight));
}

// The same for pairs of bfloat16, summed in float32: for each k in turn the products of left[m][2k]
// and right[k][2n] are added up by fused multiply-adds that begin at 0, those of the odd ones
// likewise; then sums[m][n] += (even + odd). Denormals are read and written as zero.
template <int kSums, int kLeft, int kRight>
[[gnu::always_inline]] inline void add_pair_products() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kLeft), "i"(kRight));
}

}  // namespace
}  // namespace millrace
