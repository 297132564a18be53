// Products whose rows are grouped, against a product of each group with a matrix of its own.
#include "kernels/experts/row_groups.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "base/math.h"
#include "kernels/quantized/quantized_test_data.h"
#include "kernels/quantized/weight_matrix.h"
#include "kernels/test_data.h"

namespace millrace {
namespace {

constexpr size_t kPanelRows = WeightMatrix::kPanelRows;
constexpr size_t kNumInputs = 130;
constexpr size_t kNumOutputs = 21;  // of a part: its last panel is not whole
constexpr size_t kNumParts = kGroupsAtOnce + 9;

size_t part_rows(LinearEpilogue epilogue) {
  return epilogue == LinearEpilogue::kSiluMul ? 2 * round_up(kNumOutputs, kPanelRows) : kNumOutputs;
}

// The rows of a part, as if it were a matrix of its own.
void pack_part(size_t part, size_t num_rows, WeightMatrix& matrix, size_t first_panel) {
  const std::vector<float> rows = random_floats(num_rows * kNumInputs, 100 + part);
  pack_rows(rows, kNumInputs, matrix, first_panel);
}

// Most parts have rows: one, a few, or more than a tile has.
std::vector<RowGroup> make_groups() {
  std::vector<RowGroup> groups;
  size_t row = 0;
  for (size_t part = 0; part < kNumParts; ++part) {
    if (part % 7 == 3) continue;
    const size_t count = part % 11 == 0 ? 17 + part % 3 : 1 + part % 4;
    groups.push_back({.part = part, .row_begin = row, .num_rows = count});
    row += count;
  }
  return groups;
}

struct Problem {
  WeightFormat format;
  LinearEpilogue epilogue;
  std::vector<float> x;
  std::vector<float> bias;  // of all packed rows
  std::vector<float> out;   // as it is before

  size_t num_rows() const { return x.size() / kNumInputs; }
};

std::vector<float> solve(
    const Executor& executor,
    const Problem& problem,
    const WeightMatrix& weights,
    std::optional<RowGroups> groups
) {
  std::vector<float> x = problem.x;
  std::vector<float> out = problem.out;
  const size_t num_scratch_rows = problem.num_rows() * (groups ? kGroupedRowsFactor : 1);
  Buffer scratch = *Buffer::allocate(multiply_scratch_bytes(
      problem.format, executor.pool.num_threads(), num_scratch_rows, kNumInputs
  ));
  const std::optional<Quantization>& quantization = problem.format.quantization;
  multiply(
      executor,
      {.x = rows_of(x, kNumInputs),
       .weights = weights,
       .bias = problem.bias,
       .out = rows_of(out, kNumOutputs),
       .epilogue = problem.epilogue,
       .rounding = quantization ? quantization->rounding : InputRounding(),
       .scratch = scratch.bytes(),
       .groups = groups}
  );
  return out;
}

template <class T>
std::vector<T> rows_of_group(const std::vector<T>& all, const RowGroup& group, size_t num_columns) {
  const auto begin = all.begin() + static_cast<ptrdiff_t>(group.row_begin * num_columns);
  return {begin, begin + static_cast<ptrdiff_t>(group.num_rows * num_columns)};
}

std::vector<float> part_of(const std::vector<float>& all, size_t part, size_t size) {
  const auto begin = all.begin() + static_cast<ptrdiff_t>(part * size);
  return {begin, begin + static_cast<ptrdiff_t>(size)};
}

class RowGroupsOnIsa : public testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(
    ,
    RowGroupsOnIsa,
    testing::ValuesIn(supported_isas()),
    [](const auto& isa) {
      std::string name(name_of(isa.param));
      std::erase(name, '-');
      return name;
    }
);

TEST_P(RowGroupsOnIsa, MultiplyEachGroupByItsPartAlone) {
  ThreadPool pool(2);
  const Executor executor{GetParam(), pool};
  const std::vector<RowGroup> groups = make_groups();
  const size_t num_rows = num_rows_of(groups);
  for (const WeightFormat& format : kWeightFormats) {
    for (const LinearEpilogue epilogue : {LinearEpilogue::kStore, LinearEpilogue::kSiluMul}) {
      const size_t num_part_rows = part_rows(epilogue);
      const size_t part_panels = div_ceil(num_part_rows, kPanelRows);
      WeightMatrix all = *WeightMatrix::allocate(
          format.of_layers(), kNumParts * part_panels * kPanelRows, kNumInputs
      );
      for (size_t part = 0; part < kNumParts; ++part) {
        pack_part(part, num_part_rows, all, part * part_panels);
      }
      const Problem problem = {
          .format = format,
          .epilogue = epilogue,
          .x = random_floats(num_rows * kNumInputs, 1),
          .bias = random_floats(kNumParts * part_panels * kPanelRows, 3),
          .out = random_floats(num_rows * kNumOutputs, 2),
      };
      const std::vector<float> found =
          solve(executor, problem, all, RowGroups{groups, part_panels});
      for (const RowGroup& group : groups) {
        WeightMatrix own = *WeightMatrix::allocate(format.of_layers(), num_part_rows, kNumInputs);
        pack_part(group.part, num_part_rows, own, 0);
        const Problem alone = {
            .format = format,
            .epilogue = epilogue,
            .x = rows_of_group(problem.x, group, kNumInputs),
            .bias = part_of(problem.bias, group.part, part_panels * kPanelRows),
            .out = rows_of_group(problem.out, group, kNumOutputs),
        };
        ASSERT_EQ(
            bits_of(rows_of_group(found, group, kNumOutputs)),
            bits_of(solve(executor, alone, own, {}))
        ) << "part "
          << group.part;
      }
    }
  }
}

class RowGroupsDeathTest : public testing::Test {
 protected:
  static void expect_refusal(const RowGroup& group, size_t part_panels, const char* message) {
    std::vector<float> out(3 * kNumOutputs);
    const PanelData panels = {.num_panels = 4};
    EXPECT_DEATH(
        check_outputs(
            {.out = rows_of(out, kNumOutputs),
             .epilogue = LinearEpilogue::kStore,
             .groups = RowGroups{{&group, 1}, part_panels}},
            4 * kPanelRows,
            panels
        ),
        message
    );
  }
};

TEST_F(RowGroupsDeathTest, RefusesGroupsOfOtherMatrices) {
  expect_refusal({.part = 2, .row_begin = 0, .num_rows = 1}, 2, "one of the matrix");
  expect_refusal({.part = 0, .row_begin = 2, .num_rows = 2}, 2, "among those of x");
  expect_refusal({.part = 0, .row_begin = 0, .num_rows = 0}, 2, "has rows");
  expect_refusal({.part = 0, .row_begin = 0, .num_rows = 1}, 1, "parts have the outputs");
}

}  // namespace
}  // namespace millrace
