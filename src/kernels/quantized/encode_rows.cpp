#include "kernels/quantized/encode_rows.h"

#include <algorithm>

#include "base/check.h"
#include "base/math.h"
#include "kernels/bfloat16_rows_kernel.h"
#include "kernels/dispatch.h"
#include "kernels/quantized/encode_rows_kernel.h"
#include "kernels/quantized/linear_quantized_kernel.h"

namespace millrace {
namespace {

constexpr IsaVersions<void (*)(const EncodeTask&, size_t, size_t)> kEncode = {
    encode_rows_reference, encode_rows_avx2, encode_rows_avx512};
// Nobody reads tiles with AVX2.
constexpr IsaVersions<void (*)(const RotatedTilesTask&, size_t, size_t)> kWriteTiles = {
    write_rotated_tiles_reference, write_rotated_tiles_reference, write_rotated_tiles_avx512};
constexpr IsaVersions<void (*)(const ByteTilesTask&, size_t, size_t)> kEncodeToTiles = {
    encode_to_tiles_reference, encode_to_tiles_reference, encode_to_tiles_avx512};
constexpr IsaVersions<void (*)(float*, size_t)> kRotate = {
    rotate_reference, rotate_avx2, rotate_avx512};

RowsToRotate rows_to_rotate(ConstRows x, bool is_rotated = true) {
  return {
      .x = x.data,
      .stride = x.stride,
      .num_inputs = x.num_columns,
      .rotation = is_rotated ? rotation_size(x.num_columns) : kActivationGroup,
      .num_groups = div_ceil(x.num_columns, kActivationGroup),
      .is_rotated = is_rotated,
  };
}

// function(begin, end) for all rows, which are made before by `norm`, if there is one. A phase
// costs more than a row.
template <class Function>
void for_rows(
    const Executor& executor, size_t num_rows, const RmsNormRows* norm, const Function& function
) {
  const auto with_norm = [&](size_t begin, size_t end) {
    if (norm != nullptr) (*norm)(begin, end);
    function(begin, end);
  };
  if (num_rows == 1) return with_norm(0, 1);
  executor.pool.parallel_for(num_rows, with_norm);
}

// Of ByteTiles, without `rows`.
size_t bytes_of_tiles(size_t num_rows, size_t num_inputs) {
  const size_t tile_rows = std::min(num_rows, kInputTileRows);
  if (tile_rows == 0) return 0;
  return round_up(num_rows, tile_rows) * round_up(num_inputs, kActivationGroup);
}

}  // namespace

size_t rotation_size(size_t num_inputs) {
  const size_t padded = round_up(std::max<size_t>(num_inputs, 1), kActivationGroup);
  return std::min(padded & (~padded + 1), kRotationMax);
}

size_t EncodedRows::row_bytes(size_t num_inputs, InputRounding rounding, InputForm form) {
  const size_t num_groups = div_ceil(num_inputs, kActivationGroup);
  const size_t num_value_bytes = num_groups * value_bytes(rounding, form);
  if (rounding == InputRounding::kUnrotated) {
    return round_up<size_t>(num_value_bytes + num_groups * sizeof(CodedInputs), 64);
  }
  const size_t num_scales = has_row_scales(rounding) ? 1 : num_groups;
  return round_up<size_t>(
      num_value_bytes + num_groups * sizeof(int32_t) + num_scales * sizeof(float), 64
  );
}

EncodedRows encode_rows(
    const Executor& executor,
    ConstRows x,
    InputRounding rounding,
    std::span<std::byte> scratch,
    const RmsNormRows* norm
) {
  const InputForm form = input_form(executor.isa, rounding);
  const EncodedRows rows = {
      .data = scratch.data(),
      .num_rows = x.num_rows,
      .num_groups = div_ceil(x.num_columns, kActivationGroup),
      .rounding = rounding,
      .form = form,
      .stride = EncodedRows::row_bytes(x.num_columns, rounding, form),
  };
  CHECK(rows.stride * rows.num_rows <= scratch.size(), "the scratch holds all rows");
  const EncodeTask task = {
      .rows = rows_to_rotate(x, is_rotated(rounding)),
      .rounding = rounding,
      .weight_zero = rounding == InputRounding::kRow ? kInt4Zero : kInt8Zero,
      .in_words = form == InputForm::kWords,
      .has_word_starts = form == InputForm::kBytesAndStarts,
      .value_bytes = EncodedRows::value_bytes(rounding, form),
      .out = reinterpret_cast<unsigned char*>(rows.data),
      .out_stride = rows.stride,
  };
  const auto function = kEncode.find(executor.isa);
  for_rows(executor, x.num_rows, norm, [&](size_t begin, size_t end) {
    function(task, begin, end);
  });
  return rows;
}

size_t RotatedTiles::num_bytes(size_t num_rows, size_t num_inputs) {
  const size_t tile_rows = std::min(num_rows, kInputTileRows);
  if (tile_rows == 0) return 0;
  return round_up(num_rows, tile_rows) * round_up(num_inputs, kActivationGroup) * sizeof(BFloat16);
}

RotatedTiles rotate_to_tiles(
    const Executor& executor, ConstRows x, std::span<std::byte> scratch, const RmsNormRows* norm
) {
  CHECK(RotatedTiles::num_bytes(x.num_rows, x.num_columns) <= scratch.size(), "room for all tiles");
  const size_t tile_rows = std::min(x.num_rows, kInputTileRows);
  const RotatedTiles tiles = {
      .data = reinterpret_cast<BFloat16*>(scratch.data()),
      .num_rows = x.num_rows,
      .num_groups = div_ceil(x.num_columns, kActivationGroup),
      .tile_bytes = tile_rows * kInputTileColumns * sizeof(BFloat16),
  };
  const RotatedTilesTask task = {
      .rows = rows_to_rotate(x), .tiles = tiles.data, .tile_rows = tile_rows};
  const auto function = kWriteTiles.find(executor.isa);
  for_rows(executor, x.num_rows, norm, [&](size_t begin, size_t end) {
    function(task, begin, end);
  });
  return tiles;
}

size_t ByteTiles::num_bytes(size_t num_rows, size_t num_inputs) {
  return bytes_of_tiles(num_rows, num_inputs) + num_rows * sizeof(ByteRow);
}

ByteTiles encode_to_tiles(
    const Executor& executor, ConstRows x, std::span<std::byte> scratch, const RmsNormRows* norm
) {
  CHECK(ByteTiles::num_bytes(x.num_rows, x.num_columns) <= scratch.size(), "room for all tiles");
  const size_t tile_rows = std::min(x.num_rows, kInputTileRows);
  const size_t num_tile_bytes = bytes_of_tiles(x.num_rows, x.num_columns);
  auto* const rows = reinterpret_cast<ByteRow*>(scratch.data() + num_tile_bytes);
  const ByteTilesTask task = {
      .rows = rows_to_rotate(x),
      .tiles = reinterpret_cast<unsigned char*>(scratch.data()),
      .tile_rows = tile_rows,
      .encoded = rows,
  };
  const auto function = kEncodeToTiles.find(executor.isa);
  for_rows(executor, x.num_rows, norm, [&](size_t begin, size_t end) {
    function(task, begin, end);
  });
  return {
      .data = scratch.data(),
      .rows = rows,
      .num_rows = x.num_rows,
      .num_groups = task.rows.num_groups,
      .tile_bytes = tile_rows * kActivationGroup,
  };
}

void rotate(Isa isa, std::span<float> rows, size_t size) {
  CHECK(size >= 64 && size <= kRotationMax && (size & (size - 1)) == 0, "a power of two");
  CHECK(rows.size() % size == 0, "whole blocks");
  const auto function = kRotate.find(isa);
  for (size_t begin = 0; begin < rows.size(); begin += size) function(&rows[begin], size);
}

}  // namespace millrace
