// The tile registers of one thread, and what AMX's instructions do to them (Intel's manual, volume
// 2; volume 1, chapter 18). What a processor would answer with a fault - shapes that do not fit
// together, tiles that nothing has configured - is caught by CHECK.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::emulated_amx {

class Tiles {
 public:
  static constexpr size_t kCount = 8;
  static constexpr size_t kRows = 16;
  static constexpr size_t kRowBytes = 64;

  // `config`: 64 bytes, as TileShapes of kernels/amx_tiles.h. All tiles are zero afterwards.
  void configure(const uint8_t* config);
  void release();

  // Rows of memory, `stride` bytes from one to the next. What a tile has no room for is zero.
  void load(unsigned tile, const uint8_t* data, ptrdiff_t stride);
  void store(unsigned tile, uint8_t* data, ptrdiff_t stride) const;
  void clear(unsigned tile);

  // sums += left * right, as the functions of these names in kernels/amx_tiles.h.
  void add_byte_products(unsigned sums, unsigned left, unsigned right);
  void add_pair_products(unsigned sums, unsigned left, unsigned right);

 private:
  struct Tile {
    size_t num_rows = 0;
    size_t num_row_bytes = 0;
    alignas(kRowBytes) uint8_t rows[kRows][kRowBytes] = {};
  };

  [[nodiscard]] const Tile& at(unsigned tile) const;
  [[nodiscard]] Tile& at(unsigned tile);
  void check_shapes(unsigned sums, unsigned left, unsigned right) const;

  Tile tiles_[kCount];
};

}  // namespace millrace::emulated_amx
