// A weight matrix in the layout that `linear` reads: panels of 16 output rows, so that one register
// holds the same input's weights of 16 outputs and no sum ever crosses lanes.
//
//   float32   [num_panels][num_columns][16]
//   float16   [num_panels][num_columns][16]
//   bfloat16  [num_panels] of packed_bfloat16.h: 12 bits a weight, without loss, or on some
//             processors 16; then room for the exceptions of all panels, one a block, so one in 128
//             weights
//
// Each exception is a step of its own in a product, and takes 8 bytes: a matrix with many would be
// slow, and as large as whoever made the file likes. Normally distributed weights have one in
// 7,000.
//
// Rows past num_rows are zero. Written once at load, by several threads on different panels;
// afterwards read-only and shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/math.h"
#include "base/result.h"
#include "kernels/isa.h"
#include "kernels/packed_bfloat16.h"
#include "kernels/panel_data.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"

namespace millrace {

class PackedMatrix {
 public:
  static constexpr size_t kPanelRows = 16;

  PackedMatrix() = default;

  // All zero. kResourceExhausted when there is no such memory. `panels`: of bfloat16.
  static Result<PackedMatrix> allocate(
      DType dtype,
      size_t num_rows,
      size_t num_columns,
      BFloat16Panels panels = best_bfloat16_panels()
  );

  // What allocate() takes; nullopt when that does not fit a size_t.
  static std::optional<size_t> num_bytes(
      DType dtype,
      size_t num_rows,
      size_t num_columns,
      BFloat16Panels panels = best_bfloat16_panels()
  );

  // How many exceptions a bfloat16 matrix has room for.
  static constexpr size_t num_exceptions_max(size_t num_rows, size_t num_columns) {
    return div_ceil(num_rows, kPanelRows) * div_ceil(num_columns, kPackedBlockColumns);
  }

  DType dtype() const { return dtype_; }
  BFloat16Panels bfloat16_panels() const { return bfloat16_panels_; }  // of bfloat16 alone
  size_t num_rows() const { return num_rows_; }
  size_t num_columns() const { return num_columns_; }
  size_t num_panels() const;
  size_t num_bytes() const { return buffer_.num_bytes(); }
  size_t num_bytes_read() const;  // by a product: without the room that no exception took
  size_t panel_size() const;      // from one panel to the next: elements; bytes of bfloat16
  const void* data() const { return buffer_.bytes().data(); }
  PanelData panels() const;
  // [num_panels] of bfloat16, else empty.
  std::span<const PanelExceptions> exceptions() const { return exceptions_; }
  // Of all panels packed so far, with those that there was no room for.
  size_t num_exceptions() const { return num_exceptions_; }
  // False once some panel found no room for its exceptions: the matrix is not to be used then.
  bool holds_all_weights() const;

  // Rounds rows [panel * 16, + n) to the storage type, to nearest, ties to even, and puts them in
  // their place; the same bits with every `isa`, save those of a float16 that is no number. `rows`:
  // [n, num_columns], n <= 16. Threads may pack different panels at once.
  void pack_panel(size_t panel, std::span<const float> rows, Isa isa = best_isa());

  // Widens one row. `out`: [num_columns].
  void copy_row(size_t row, std::span<float> out) const;

 private:
  void copy_bfloat16_row(size_t row, std::span<float> out) const;
  void keep_exceptions(size_t panel, std::span<const WeightException> found);

  DType dtype_ = DType::kFloat32;
  BFloat16Panels bfloat16_panels_ = BFloat16Panels::kPacked;
  size_t num_rows_ = 0;
  size_t num_columns_ = 0;
  Buffer buffer_;
  size_t num_exceptions_ = 0;                // threads that pack count in turn
  std::vector<PanelExceptions> exceptions_;  // [num_panels] of bfloat16, within the buffer
};

}  // namespace millrace
