#include "kernels/packed_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/math.h"
#include "kernels/dispatch.h"
#include "kernels/pack_rows_kernel.h"

namespace millrace {
namespace {

float rounded_to(float value, float /*type*/) {
  return value;
}
Float16 rounded_to(float value, Float16 /*type*/) {
  return to_float16(value);
}

constexpr size_t kRows = PackedMatrix::kPanelRows;

// Puts no column in its place.
template <class T>
size_t transpose_no_rows(const float* /*rows*/, size_t /*num_columns*/, T* /*out*/) {
  return 0;
}
template <class T>
constexpr IsaVersions<size_t (*)(const float*, size_t, T*)> kTransposeRows = {
    transpose_no_rows<T>, transpose_rows_avx2<T>, transpose_rows_avx512<T>};

template <class T>
void pack(std::span<T> panel, std::span<const float> rows, size_t num_columns, Isa isa) {
  const size_t num_rows = rows.size() / num_columns;
  const size_t num_done =
      num_rows == kRows ? kTransposeRows<T>.find(isa)(rows.data(), num_columns, panel.data()) : 0;
  for (size_t row = 0; row < num_rows; ++row) {
    const float* values = &rows[row * num_columns];
    for (size_t column = num_done; column < num_columns; ++column) {
      panel[column * kRows + row] = rounded_to(values[column], T{});
    }
  }
}

template <class T>
void unpack_row(std::span<const T> panel, size_t row, std::span<float> out) {
  for (size_t column = 0; column < out.size(); ++column) {
    out[column] = to_float(panel[column * kRows + row]);
  }
}

}  // namespace

std::optional<size_t> PackedMatrix::num_bytes(
    DType dtype, size_t num_rows, size_t num_columns, BFloat16Panels panels
) {
  if (num_rows > SIZE_MAX - kRows || num_columns > SIZE_MAX / kWholeBlockBytes) {
    return std::nullopt;
  }
  if (dtype == DType::kBFloat16) {
    const size_t room = div_ceil(num_columns, kPackedBlockColumns) * sizeof(WeightException);
    return checked_mul(div_ceil(num_rows, kRows), bfloat16_panel_bytes(panels, num_columns) + room);
  }
  const auto elements = checked_mul(round_up(num_rows, kRows), num_columns);
  return elements ? checked_mul(*elements, size_of(dtype)) : std::nullopt;
}

Result<PackedMatrix> PackedMatrix::allocate(
    DType dtype, size_t num_rows, size_t num_columns, BFloat16Panels panels
) {
  CHECK(num_rows > 0 && num_columns > 0, "a matrix has rows and columns");
  const std::optional<size_t> bytes = num_bytes(dtype, num_rows, num_columns, panels);
  if (!bytes) {
    return Error{
        ErrorCode::kResourceExhausted,
        fmt::format("a matrix of {} x {} does not fit in memory", num_rows, num_columns),
        {}};
  }
  Result<Buffer> buffer = Buffer::allocate(*bytes);
  if (!buffer) return buffer.error();

  PackedMatrix matrix;
  matrix.dtype_ = dtype;
  matrix.num_rows_ = num_rows;
  matrix.num_columns_ = num_columns;
  matrix.buffer_ = *std::move(buffer);
  if (dtype == DType::kBFloat16) {
    matrix.bfloat16_panels_ = panels;
    matrix.exceptions_.resize(matrix.num_panels());
  }
  return matrix;
}

void PackedMatrix::copy_bfloat16_row(size_t row, std::span<float> out) const {
  const size_t panel = row / kRows;
  const uint8_t* const packed = &buffer_.as<uint8_t>()[panel * panel_size()];
  for (size_t column = 0; column < out.size(); ++column) {
    out[column] = to_float(bfloat16_panel_weight(bfloat16_panels_, packed, row % kRows, column));
  }
  const PanelExceptions& exceptions = exceptions_[panel];
  for (const WeightException& exception : std::span(exceptions.data, exceptions.size)) {
    if (exception.row == row % kRows) out[exception.column] = to_float(BFloat16{exception.bits});
  }
}

size_t PackedMatrix::num_panels() const {
  return div_ceil(num_rows_, kRows);
}
size_t PackedMatrix::panel_size() const {
  return dtype_ == DType::kBFloat16 ? bfloat16_panel_bytes(bfloat16_panels_, num_columns_)
                                    : num_columns_ * kRows;
}

PanelData PackedMatrix::panels() const {
  const size_t element_bytes = dtype_ == DType::kBFloat16 ? 1 : size_of(dtype_);
  return {data(), num_panels(), panel_size() * element_bytes};
}

size_t PackedMatrix::num_bytes_read() const {
  if (dtype_ != DType::kBFloat16) return num_bytes();
  return num_panels() * panel_size() + num_exceptions_ * sizeof(WeightException);
}

bool PackedMatrix::holds_all_weights() const {
  return num_exceptions_ <= num_exceptions_max(num_rows_, num_columns_);
}

void PackedMatrix::keep_exceptions(size_t panel, std::span<const WeightException> found) {
  const size_t first = std::atomic_ref(num_exceptions_).fetch_add(found.size());
  if (first + found.size() > num_exceptions_max(num_rows_, num_columns_)) return;
  std::byte* const room = &buffer_.bytes()[num_panels() * panel_size()];
  WeightException* const place = reinterpret_cast<WeightException*>(room) + first;
  std::ranges::copy(found, place);
  exceptions_[panel] = {place, found.size()};
}

void PackedMatrix::pack_panel(size_t panel, std::span<const float> rows, Isa isa) {
  CHECK(panel < num_panels(), "the panel is within the matrix");
  CHECK(rows.size() % num_columns_ == 0 && rows.size() / num_columns_ <= kRows, "at most 16 rows");
  const size_t begin = panel * panel_size();
  switch (dtype_) {
    case DType::kFloat32:
      return pack(buffer_.as<float>().subspan(begin, panel_size()), rows, num_columns_, isa);
    case DType::kFloat16:
      return pack(buffer_.as<Float16>().subspan(begin, panel_size()), rows, num_columns_, isa);
    case DType::kBFloat16: {
      const auto packed = buffer_.as<uint8_t>().subspan(begin, panel_size());
      return keep_exceptions(
          panel, pack_bfloat16_panel(bfloat16_panels_, rows, num_columns_, packed, isa)
      );
    }
  }
}

void PackedMatrix::copy_row(size_t row, std::span<float> out) const {
  CHECK(row < num_rows_ && out.size() == num_columns_, "a row of this matrix");
  const size_t begin = row / kRows * panel_size();
  const size_t row_in_panel = row % kRows;
  switch (dtype_) {
    case DType::kFloat32:
      return unpack_row(buffer_.as<float>().subspan(begin, panel_size()), row_in_panel, out);
    case DType::kFloat16:
      return unpack_row(buffer_.as<Float16>().subspan(begin, panel_size()), row_in_panel, out);
    case DType::kBFloat16:
      return copy_bfloat16_row(row, out);
  }
}

}  // namespace millrace
