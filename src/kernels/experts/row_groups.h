// Which rows of a product are multiplied by which panels of its matrix: all by all, or each group
// of rows by panels of its own, as the tokens of an expert by that expert's matrix.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "kernels/linear_kernel.h"  // LinearEpilogue
#include "kernels/panel_data.h"
#include "kernels/rows.h"

namespace millrace {

// Rows [row_begin, row_begin + num_rows) of x and of the outputs, and the part of the matrix that
// they are multiplied by.
struct RowGroup {
  size_t part = 0;
  size_t row_begin = 0;
  size_t num_rows = 0;
};

struct RowGroups {
  std::span<const RowGroup> groups;  // whose rows do not overlap; none is empty
  size_t part_panels = 0;            // of a part, one below the other; even for kSiluMul
};

// So many groups are multiplied in one phase; what is known of each stands on the stack meanwhile.
constexpr size_t kGroupsAtOnce = 64;

[[nodiscard]] size_t num_rows_of(std::span<const RowGroup> groups);

// The outputs of a product as they are asked for.
struct ProductOutputs {
  Rows out;
  LinearEpilogue epilogue = LinearEpilogue::kStore;
  std::optional<RowGroups> groups;
};

// CHECKs that they are those of a matrix of `num_matrix_rows` in such panels.
void check_outputs(const ProductOutputs& outputs, size_t num_matrix_rows, const PanelData& panels);

}  // namespace millrace
