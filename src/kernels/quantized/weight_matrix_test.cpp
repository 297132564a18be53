#include "kernels/quantized/weight_matrix.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/quantized/quantized_test_data.h"
#include "kernels/rms_norm.h"
#include "kernels/test_data.h"
#include "tensor/buffer.h"

namespace millrace {
namespace {

WeightMatrix random_matrix(const WeightFormat& format, size_t num_rows, size_t num_columns) {
  WeightMatrix matrix = *WeightMatrix::allocate(format.of_layers(), num_rows, num_columns);
  pack_rows(random_floats(num_rows * num_columns, 1), num_columns, matrix);
  return matrix;
}

struct Products {
  std::vector<float> x;
  std::vector<float> out;
};

// Rows that are few, and so many that threads share them however their elements are counted.
TEST(Multiply, NormalizesRowsAsItReadsThem) {
  constexpr size_t kNumInputs = 200;
  constexpr size_t kNumOutputs = 37;
  ThreadPool pool(3);
  const std::vector<float> weight = random_floats(kNumInputs, 2);
  for (const WeightFormat& format : kWeightFormats) {
    const WeightMatrix matrix = random_matrix(format, kNumOutputs, kNumInputs);
    for (const size_t num_tokens : {1, 5, 100}) {
      std::vector<float> hidden = random_floats(num_tokens * kNumInputs, 3);
      for (const Isa isa : supported_isas()) {
        const Executor executor{isa, pool};
        const auto products = [&](bool is_normalized_before) {
          Products result = {
              .x = std::vector<float>(hidden.size()),
              .out = std::vector<float>(num_tokens * kNumOutputs)};
          const RmsNormArgs norm = {
              .x = rows_of(hidden, kNumInputs),
              .weight = weight,
              .eps = 1e-6F,
              .out = rows_of(result.x, kNumInputs)};
          const RmsNormRows norm_rows(isa, norm);
          if (is_normalized_before) rms_norm(executor, norm);
          Buffer scratch = *Buffer::allocate(
              multiply_scratch_bytes(format, pool.num_threads(), num_tokens, kNumInputs)
          );
          multiply(
              executor,
              {.x = rows_of(result.x, kNumInputs),
               .weights = matrix,
               .bias = {},
               .out = rows_of(result.out, kNumOutputs),
               .rounding = format.quantization.value_or(QuantizedFormat::kInt8).rounding,
               .scratch = scratch.bytes(),
               .norm = is_normalized_before ? nullptr : &norm_rows}
          );
          return result;
        };
        const Products expected = products(true);
        const Products found = products(false);
        EXPECT_EQ(bits_of(found.out), bits_of(expected.out)) << name_of(isa) << ' ' << num_tokens;
        EXPECT_EQ(bits_of(found.x), bits_of(expected.x)) << name_of(isa) << ' ' << num_tokens;
      }
    }
  }
}

}  // namespace
}  // namespace millrace
