#include <gtest/gtest.h>

#include <cmath>

#include "base/math.h"
#include "cuda/kernels/cuda_test_data.h"
#include "cuda/kernels/linear_quantized.h"
#include "cuda/kernels/pack_codes.h"
#include "cuda/kernels/rotate_rows.h"
#include "cuda/kernels/thread_orders.h"
#include "kernels/quantized/quantized_test_data.h"

namespace millrace::cuda {
namespace {

struct Problem {
  size_t num_inputs;
  size_t num_outputs;
  LinearEpilogue epilogue;
  QuantizedMatrix matrix;
  std::vector<float> bias;  // all of gate, then all of up; or empty

  bool is_silu_mul() const { return epilogue == LinearEpilogue::kSiluMul; }
  size_t num_rows() const { return is_silu_mul() ? 2 * num_outputs : num_outputs; }
  // Of output `column` in the matrix; `part` 1: its up.
  size_t row_of(size_t column, size_t part) const {
    return is_silu_mul() ? (column / 16 * 2 + part) * 16 + column % 16 : column;
  }
};

Problem make_problem(
    QuantizedFormat format,
    size_t num_outputs,
    size_t num_inputs,
    LinearEpilogue epilogue,
    bool has_bias
) {
  const size_t num_rows =
      epilogue == LinearEpilogue::kSiluMul ? 2 * round_up(num_outputs, size_t{16}) : num_outputs;
  const std::vector<float> rows = random_floats(num_rows * num_inputs, 2);
  return {
      num_inputs,
      num_outputs,
      epilogue,
      quantized(format, rows, num_inputs),
      has_bias ? random_floats(num_rows, 3) : std::vector<float>()};
}

// The matrix as a model's loader leaves it: by the kernel that packs it, in two pieces.
std::vector<std::byte> pack(const Problem& problem) {
  const QuantizedMatrix& matrix = problem.matrix;
  const DeviceArray<std::byte> panels(bytes_of(matrix));
  const size_t num_panels = num_code_panels(problem.num_rows(), problem.epilogue);
  EXPECT_EQ(num_panels, matrix.num_panels());
  const DeviceArray<std::byte> packed(std::vector<std::byte>(
      num_code_bytes(matrix.format(), num_panels, problem.num_inputs), std::byte{0xAB}
  ));
  const size_t first = num_panels / 4 * 2;
  PackCodesArgs args = {
      .format = matrix.format(),
      .panels = panels.data(),
      .num_panels = first,
      .num_inputs = problem.num_inputs,
      .epilogue = problem.epilogue,
      .packed = packed.data()};
  pack_codes({}, args);
  args.panels = panels.data() + first * matrix.panel_bytes();
  args.num_panels = num_panels - first;
  args.first_panel = first;
  pack_codes({}, args);
  return packed.read();
}

std::vector<uint16_t> rotated(const std::vector<uint16_t>& x, size_t num_inputs) {
  const size_t num_tokens = x.size() / num_inputs;
  const DeviceArray<uint16_t> device_x(token_tiles(x, num_inputs));
  const DeviceArray<uint16_t> out(
      std::vector<uint16_t>(num_token_elements(num_tokens, num_inputs), 0xFFFF)
  );
  rotate_rows(
      {},
      {.x = device_x.data(), .num_tokens = num_tokens, .num_inputs = num_inputs, .out = out.data()}
  );
  return out.read();
}

// [num_tokens, num_outputs], the bits: of float32, or of bfloat16 for kSiluMul.
std::vector<uint32_t> solve(const Problem& problem, const std::vector<uint16_t>& x) {
  const size_t num_tokens = x.size() / problem.num_inputs;
  const size_t size = num_tokens * problem.num_outputs;
  const DeviceArray<uint16_t> device_x(rotated(x, problem.num_inputs));
  const DeviceArray<std::byte> packed(pack(problem));
  const DeviceArray<float> bias(problem.bias);
  const DeviceArray<float> out(std::vector<float>(size, 3.0F));
  const DeviceArray<uint16_t> activation(num_token_elements(num_tokens, problem.num_outputs));
  linear_quantized(
      {},
      problem.matrix.format(),
      {.x = device_x.data(),
       .num_tokens = num_tokens,
       .num_inputs = problem.num_inputs,
       .weights = packed.data(),
       .num_rows = problem.num_rows(),
       .bias = problem.bias.empty() ? nullptr : bias.data(),
       .epilogue = problem.epilogue,
       .out = problem.is_silu_mul() ? nullptr : out.data(),
       .activation = problem.is_silu_mul() ? activation.data() : nullptr}
  );
  if (!problem.is_silu_mul()) return bits_of(out.read());
  const std::vector<uint16_t> result =
      token_rows(activation.read(), num_tokens, problem.num_outputs);
  return {result.begin(), result.end()};
}

// Few inputs of -1 and 1: their transform is of integers up to 256, which bfloat16 holds, so that
// nothing is rounded before the products.
std::vector<uint16_t> integer_inputs(size_t num_tokens, size_t num_inputs) {
  std::vector<uint16_t> x(num_tokens * num_inputs, 0);
  for (size_t i = 0; i < x.size(); ++i) {
    const double unit = random_unit(5, i);
    if (unit < 0.2) x[i] = narrowed(unit < 0.1 ? 1.0F : -1.0F);
  }
  return x;
}

// Of output `column`; `part` 1: of its up.
double exact_sum(
    const Problem& problem,
    const std::vector<uint16_t>& x,
    size_t token,
    size_t column,
    size_t part = 0
) {
  std::vector<float> weights(problem.num_inputs);
  problem.matrix.copy_row(problem.row_of(column, part), weights);
  double sum = problem.bias.empty() ? 0.0 : problem.bias[part * problem.num_outputs + column];
  for (size_t k = 0; k < problem.num_inputs; ++k) {
    sum += double{widened(x[token * problem.num_inputs + k])} * weights[k];
  }
  return sum;
}

struct Shape {
  size_t num_tokens;
  size_t num_outputs;
  size_t num_inputs;
};

const Shape kShapes[] = {
    {1, 16, 64}, {3, 18, 7}, {8, 33, 320}, {9, 16, 576}, {17, 40, 1024}, {40, 20, 130}};

class LinearQuantizedOnDevice : public testing::TestWithParam<QuantizedFormat> {};

INSTANTIATE_TEST_SUITE_P(
    Formats,
    LinearQuantizedOnDevice,
    testing::ValuesIn(kQuantizedFormats),
    [](const auto& format) { return std::string(name_of(format.param)); }
);

constexpr LinearEpilogue kEpilogues[] = {
    LinearEpilogue::kStore, LinearEpilogue::kAddToOut, LinearEpilogue::kSiluMul};

TEST_P(LinearQuantizedOnDevice, IsNearTheProductOfTheRoundedWeights) {
  for (const Shape& shape : kShapes) {
    for (const LinearEpilogue epilogue : kEpilogues) {
      SCOPED_TRACE(
          testing::Message() << shape.num_tokens << ", " << shape.num_inputs << ", "
                             << static_cast<int>(epilogue)
      );
      const Problem problem =
          make_problem(GetParam(), shape.num_outputs, shape.num_inputs, epilogue, true);
      const std::vector<uint16_t> x = integer_inputs(shape.num_tokens, shape.num_inputs);
      const auto bits = same_in_every_thread_order([&] { return solve(problem, x); });
      for (size_t i = 0; i < bits.size(); i += 1 + i % 3) {
        const size_t token = i / shape.num_outputs;
        const size_t column = i % shape.num_outputs;
        const double sum = exact_sum(problem, x, token, column);
        double exact = epilogue == LinearEpilogue::kAddToOut ? sum + 3.0 : sum;
        double result = std::bit_cast<float>(bits[i]);
        double tolerance = 2e-4;
        if (problem.is_silu_mul()) {
          result = widened(static_cast<uint16_t>(bits[i]));
          exact = sum / (1.0 + std::exp(-sum)) * exact_sum(problem, x, token, column, 1);
          tolerance = 1e-3 + std::abs(exact) * 0x1.04p-8;
        }
        ASSERT_NEAR(result, exact, tolerance) << token << ", " << column;
      }
    }
  }
}

// More panels than the warps of 132 blocks have at once, in four parts, which are added in the same
// memory round after round; a last round with panels for some of the blocks.
TEST_P(LinearQuantizedOnDevice, AddsThePartsOfOneRoundOfPanelsAfterTheOther) {
  const Shape shape = {.num_tokens = 2, .num_outputs = 8450, .num_inputs = 960};
  const Problem problem = make_problem(
      GetParam(), shape.num_outputs, shape.num_inputs, LinearEpilogue::kAddToOut, false
  );
  const std::vector<uint16_t> x = integer_inputs(shape.num_tokens, shape.num_inputs);
  const auto bits = same_in_every_thread_order([&] { return solve(problem, x); });
  for (size_t i = 0; i < bits.size(); i += 7) {
    const double exact = exact_sum(problem, x, i / shape.num_outputs, i % shape.num_outputs) + 3.0;
    ASSERT_NEAR(std::bit_cast<float>(bits[i]), exact, 2e-4) << i;
  }
}

TEST_P(LinearQuantizedOnDevice, GivesATokenTheSameBitsInEveryBatch) {
  for (const LinearEpilogue epilogue : kEpilogues) {
    const Problem problem = make_problem(GetParam(), 20, 200, epilogue, false);
    const std::vector<uint16_t> x = random_bfloat16(40 * problem.num_inputs, 4);
    const auto rows_of_x = [&](size_t begin, size_t end) {
      return std::vector<uint16_t>(
          x.begin() + static_cast<std::ptrdiff_t>(begin * problem.num_inputs),
          x.begin() + static_cast<std::ptrdiff_t>(end * problem.num_inputs)
      );
    };
    std::vector<uint32_t> alone;
    for (size_t token = 0; token < 40; ++token) {
      const std::vector<uint32_t> bits = solve(problem, rows_of_x(token, token + 1));
      alone.insert(alone.end(), bits.begin(), bits.end());
    }
    for (const size_t size : {2, 7, 8, 9, 16, 17, 31, 32, 33, 40}) {
      const size_t begin = 40 - size;
      const std::vector<uint32_t> bits = solve(problem, rows_of_x(begin, 40));
      ASSERT_TRUE(std::equal(bits.begin(), bits.end(), &alone[begin * 20])) << size;
    }
  }
}

TEST(LinearQuantizedOnDevice, DoesNothingForNoTokens) {
  linear_quantized({}, QuantizedFormat::kInt8, {});
  pack_codes({}, {});
}

}  // namespace
}  // namespace millrace::cuda
