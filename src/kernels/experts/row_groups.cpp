#include "kernels/experts/row_groups.h"

#include "base/check.h"
#include "base/math.h"
#include "kernels/packed_matrix.h"

namespace millrace {
namespace {

constexpr size_t kPanelRows = PackedMatrix::kPanelRows;

void check_groups(const RowGroups& groups, size_t num_rows, const PanelData& panels) {
  for (const RowGroup& group : groups.groups) {
    CHECK(group.num_rows > 0, "a group has rows");
    CHECK(
        group.row_begin <= num_rows && group.num_rows <= num_rows - group.row_begin,
        "a group's rows are among those of x"
    );
    CHECK(
        group.part < panels.num_panels / groups.part_panels, "a group's part is one of the matrix"
    );
  }
}

}  // namespace

size_t num_rows_of(std::span<const RowGroup> groups) {
  size_t num_rows = 0;
  for (const RowGroup& group : groups) num_rows += group.num_rows;
  return num_rows;
}

void check_outputs(const ProductOutputs& outputs, size_t num_matrix_rows, const PanelData& panels) {
  const bool alternates = outputs.epilogue == LinearEpilogue::kSiluMul;
  const size_t num_columns = outputs.out.num_columns;
  if (outputs.groups) {
    const size_t num_panels = div_ceil(num_columns, kPanelRows) * (alternates ? 2 : 1);
    CHECK(num_panels > 0 && outputs.groups->part_panels == num_panels, "parts have the outputs");
    check_groups(*outputs.groups, outputs.out.num_rows, panels);
  } else if (alternates) {
    CHECK(num_matrix_rows == 2 * round_up(num_columns, kPanelRows), "gate and up panels alternate");
  } else {
    CHECK(num_columns == num_matrix_rows, "out has the weights' outputs");
  }
}

}  // namespace millrace
