#include "kernels/embed.h"

#include <gtest/gtest.h>

#include "kernels/quantized/quantized_test_data.h"
#include "kernels/test_data.h"

namespace millrace {
namespace {

WeightMatrix matrix_of(std::span<const float> rows, size_t num_columns) {
  const size_t num_rows = rows.size() / num_columns;
  WeightMatrix matrix = *WeightMatrix::allocate(DType::kFloat32, num_rows, num_columns);
  for (size_t panel = 0; panel * 16 < num_rows; ++panel) {
    const size_t count = std::min<size_t>(16, num_rows - panel * 16);
    matrix.pack_panel(panel, rows.subspan(panel * 16 * num_columns, count * num_columns));
  }
  return matrix;
}

void expect_rows_of_tokens(const WeightMatrix& table, std::span<const float> rows) {
  ThreadPool pool(2);
  const size_t width = table.num_columns();
  const std::vector<TokenId> ids = {36, 0, 17, 17, 16};
  std::vector<float> out(ids.size() * width);
  embed({best_isa(), pool}, {.token_ids = ids, .table = table, .out = rows_of(out, width)});
  for (size_t token = 0; token < ids.size(); ++token) {
    for (size_t i = 0; i < width; ++i) {
      EXPECT_EQ(out[token * width + i], rows[static_cast<size_t>(ids[token]) * width + i]);
    }
  }
}

TEST(Embed, CopiesTheRowOfEachToken) {
  const std::vector<float> rows = random_floats(37 * 10, 1);
  expect_rows_of_tokens(matrix_of(rows, 10), rows);
}

TEST(Embed, ReadsRowsOfCodes) {
  constexpr size_t kWidth = 70;
  const CodeFormat format = *code_format(QuantizedFormat::kUint6By16AroundZero);
  const CodedRowsData data = coded(random_floats(48 * kWidth, 1), kWidth, format);
  WeightMatrix table = *WeightMatrix::allocate(QuantizedFormat::kUint6By16AroundZero, 48, kWidth);
  for (size_t panel = 0; panel < 3; ++panel) {
    const CodedRows rows = data.view();
    const size_t num_codes = 16 * kWidth;
    const size_t num_scales = data.scales.size() / 3;
    table.quantized()->pack_codes(
        panel,
        {rows.codes.subspan(panel * num_codes, num_codes),
         rows.scales.subspan(panel * num_scales, num_scales),
         rows.bases.subspan(panel * num_scales, num_scales)}
    );
  }
  expect_rows_of_tokens(table, data.values(kWidth, format.num_inputs));
}

TEST(EmbedDeathTest, RefusesTokensOutsideTheTable) {
  ThreadPool pool(1);
  const WeightMatrix table = matrix_of(random_floats(40, 1), 10);
  std::vector<float> out(10);
  for (const TokenId id : {4, -1}) {
    const std::vector<TokenId> ids = {id};
    EXPECT_DEATH(
        embed({best_isa(), pool}, {.token_ids = ids, .table = table, .out = rows_of(out, 10)}),
        "a row of this matrix"
    );
  }
}

}  // namespace
}  // namespace millrace
