#include "emulated_amx/tiles.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/denormals.h"
#include "tensor/dtype.h"

namespace millrace::emulated_amx {
namespace {

constexpr size_t kColumnBytes = 4;  // of sums, and what is multiplied with them at once
constexpr size_t kColumns = Tiles::kRowBytes / kColumnBytes;

// A row as numbers.
template <class T>
struct Row {
  T values[Tiles::kRowBytes / sizeof(T)];

  explicit Row(const uint8_t* bytes) { std::memcpy(values, bytes, sizeof values); }
  void store(uint8_t* bytes) const { std::memcpy(bytes, values, sizeof values); }
};

}  // namespace

const Tiles::Tile& Tiles::at(unsigned tile) const {
  CHECK(tile < kCount && tiles_[tile].num_rows > 0, "a tile that is used has been configured");
  return tiles_[tile];
}
Tiles::Tile& Tiles::at(unsigned tile) {
  return const_cast<Tile&>(static_cast<const Tiles*>(this)->at(tile));
}

void Tiles::configure(const uint8_t* config) {
  constexpr size_t kShapes = 16;   // where the rows' bytes begin, two for each tile
  constexpr size_t kHeights = 48;  // where the numbers of rows begin
  release();
  if (config[0] == 0) return;
  CHECK(config[0] == 1 && config[1] == 0, "palette 1, and no row of a tile was begun");
  for (size_t tile = 0; tile < kCount; ++tile) {
    uint16_t num_row_bytes = 0;
    std::memcpy(&num_row_bytes, config + kShapes + tile * sizeof num_row_bytes, 2);
    const size_t num_rows = config[kHeights + tile];
    CHECK(
        num_row_bytes <= kRowBytes && num_row_bytes % kColumnBytes == 0 && num_rows <= kRows,
        "a tile has up to 16 rows of 64 bytes"
    );
    CHECK((num_row_bytes == 0) == (num_rows == 0), "a tile has rows and columns, or neither");
    tiles_[tile].num_rows = num_rows;
    tiles_[tile].num_row_bytes = num_row_bytes;
  }
}

void Tiles::release() {
  for (Tile& tile : tiles_) tile = Tile{};
}

void Tiles::load(unsigned tile, const uint8_t* data, ptrdiff_t stride) {
  Tile& to = at(tile);
  std::memset(to.rows, 0, sizeof to.rows);
  for (size_t row = 0; row < to.num_rows; ++row, data += stride) {
    std::memcpy(to.rows[row], data, to.num_row_bytes);
  }
}

void Tiles::store(unsigned tile, uint8_t* data, ptrdiff_t stride) const {
  const Tile& from = at(tile);
  for (size_t row = 0; row < from.num_rows; ++row, data += stride) {
    std::memcpy(data, from.rows[row], from.num_row_bytes);
  }
}

void Tiles::clear(unsigned tile) {
  std::memset(at(tile).rows, 0, sizeof at(tile).rows);
}

void Tiles::check_shapes(unsigned sums, unsigned left, unsigned right) const {
  CHECK(sums != left && sums != right && left != right, "three tiles, not one twice");
  CHECK(at(sums).num_rows == at(left).num_rows, "sums have a row for each of the left tile");
  CHECK(
      at(sums).num_row_bytes == at(right).num_row_bytes,
      "sums have a column for each of the right tile"
  );
  CHECK(
      at(left).num_row_bytes == at(right).num_rows * kColumnBytes,
      "the right tile has a row for each column of the left one"
  );
}

void Tiles::add_byte_products(unsigned sums, unsigned left, unsigned right) {
  check_shapes(sums, left, right);
  for (size_t m = 0; m < at(sums).num_rows; ++m) {
    const Row<int8_t> factors(at(left).rows[m]);
    Row<int32_t> out(at(sums).rows[m]);
    for (size_t k = 0; k < at(right).num_rows; ++k) {
      const Row<int8_t> row(at(right).rows[k]);
      for (size_t n = 0; n < kColumns; ++n) {
        for (size_t i = n * kColumnBytes, j = k * kColumnBytes; i < (n + 1) * kColumnBytes; ++i) {
          out.values[n] += factors.values[j++] * row.values[i];
        }
      }
    }
    out.store(at(sums).rows[m]);
  }
}

void Tiles::add_pair_products(unsigned sums, unsigned left, unsigned right) {
  check_shapes(sums, left, right);
  const DenormalsAreZero scope;
  for (size_t m = 0; m < at(sums).num_rows; ++m) {
    const Row<BFloat16> factors(at(left).rows[m]);
    float even[kColumns] = {};
    float odd[kColumns] = {};
    for (size_t k = 0; k < at(right).num_rows; ++k) {
      const Row<BFloat16> row(at(right).rows[k]);
      for (size_t n = 0; n < kColumns; ++n) {
        even[n] = std::fma(to_float(factors.values[2 * k]), to_float(row.values[2 * n]), even[n]);
        odd[n] =
            std::fma(to_float(factors.values[2 * k + 1]), to_float(row.values[2 * n + 1]), odd[n]);
      }
    }
    Row<float> out(at(sums).rows[m]);
    for (size_t n = 0; n < kColumns; ++n) out.values[n] += even[n] + odd[n];
    out.store(at(sums).rows[m]);
  }
}

}  // namespace millrace::emulated_amx
