#include <gtest/gtest.h>

#include <cmath>

#include "cuda/kernels/cuda_test_data.h"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/pack_weights.h"
#include "cuda/kernels/thread_orders.h"

namespace millrace::cuda {
namespace {

struct Problem {
  size_t num_rows;
  size_t num_inputs;
  LinearEpilogue epilogue;
  std::vector<uint16_t> weights;
  std::vector<float> bias;  // empty: none

  bool is_silu_mul() const { return epilogue == LinearEpilogue::kSiluMul; }
  size_t num_outputs() const { return is_silu_mul() ? num_rows / 2 : num_rows; }
};

Problem make_problem(
    size_t num_rows, size_t num_inputs, LinearEpilogue epilogue, bool has_bias = false
) {
  return {
      num_rows,
      num_inputs,
      epilogue,
      random_bfloat16(num_rows * num_inputs, 1),
      has_bias ? random_floats(num_rows, 2) : std::vector<float>()};
}

// What is in out before: the residual.
float before(size_t index) {
  return static_cast<float>(index % 17) - 8.0F;
}

// The matrix as a model's loader leaves it: by the kernel that packs it, in two pieces.
std::vector<uint16_t> pack(const Problem& problem) {
  const size_t num_panels = num_linear_panels(problem.num_rows, problem.epilogue);
  const DeviceArray<uint16_t> packed(
      std::vector<uint16_t>(num_weight_elements(num_panels * kTileRows, problem.num_inputs), 0)
  );
  const DeviceArray<uint16_t> rows(problem.weights);
  const size_t first = problem.is_silu_mul() ? problem.num_outputs() : problem.num_rows / 3;
  PackWeightsArgs args = {
      .rows = rows.data(),
      .num_rows = first,
      .num_inputs = problem.num_inputs,
      .places = problem.is_silu_mul() ? RowPlaces::kGate : RowPlaces::kFollowing,
      .packed = packed.data()};
  pack_weights({}, args);
  args.rows += first * problem.num_inputs;
  args.num_rows = problem.num_rows - first;
  if (problem.is_silu_mul()) {
    args.places = RowPlaces::kUp;
  } else {
    args.first_row = first;
  }
  pack_weights({}, args);
  return packed.read();
}

// [num_tokens, num_outputs], the bits: of float32, or of bfloat16 for kSiluMul.
std::vector<uint32_t> solve(const Problem& problem, const std::vector<uint16_t>& x) {
  const size_t num_tokens = x.size() / problem.num_inputs;
  const size_t size = num_tokens * problem.num_outputs();
  std::vector<float> residual(size);
  for (size_t i = 0; i < size; ++i) residual[i] = before(i % problem.num_outputs());
  const DeviceArray<uint16_t> weights(pack(problem));
  const DeviceArray<float> bias(problem.bias);
  const DeviceArray<uint16_t> device_x(token_tiles(x, problem.num_inputs));
  const DeviceArray<float> out(residual);
  const DeviceArray<uint16_t> activation(num_token_elements(num_tokens, problem.num_outputs()));
  linear(
      {},
      {.x = device_x.data(),
       .num_tokens = num_tokens,
       .num_inputs = problem.num_inputs,
       .weights = weights.data(),
       .num_rows = problem.num_rows,
       .bias = problem.bias.empty() ? nullptr : bias.data(),
       .epilogue = problem.epilogue,
       .out = problem.is_silu_mul() ? nullptr : out.data(),
       .activation = problem.is_silu_mul() ? activation.data() : nullptr}
  );
  if (!problem.is_silu_mul()) return bits_of(out.read());
  const std::vector<uint16_t> result =
      token_rows(activation.read(), num_tokens, problem.num_outputs());
  return {result.begin(), result.end()};
}

double exact_sum(const Problem& problem, const std::vector<uint16_t>& x, size_t token, size_t row) {
  double sum = problem.bias.empty() ? 0.0 : problem.bias[row];
  for (size_t k = 0; k < problem.num_inputs; ++k) {
    sum += double{widened(x[token * problem.num_inputs + k])} *
           widened(problem.weights[row * problem.num_inputs + k]);
  }
  return sum;
}

void expect_near_exact(
    const Problem& problem, const std::vector<uint16_t>& x, const std::vector<uint32_t>& bits
) {
  const size_t num_outputs = problem.num_outputs();
  for (size_t i = 0; i < bits.size(); ++i) {
    const size_t token = i / num_outputs;
    const size_t row = i % num_outputs;
    const double sum = exact_sum(problem, x, token, row);
    double result = std::bit_cast<float>(bits[i]);
    double exact = sum;
    double tolerance = 1e-4;
    if (problem.epilogue == LinearEpilogue::kAddToOut) exact += before(row);
    if (problem.is_silu_mul()) {
      result = widened(static_cast<uint16_t>(bits[i]));
      exact = sum / (1.0 + std::exp(-sum)) * exact_sum(problem, x, token, num_outputs + row);
      tolerance += std::abs(exact) * 0x1.01p-8;
    }
    ASSERT_NEAR(result, exact, tolerance) << token << ", " << row;
  }
}

struct Shape {
  size_t num_tokens;
  size_t num_rows;
  size_t num_inputs;
};

// Tails of tokens, rows and inputs; one, two and four tiles of tokens, and more than one pass.
const Shape kShapes[] = {
    {1, 16, 32},
    {1, 2, 1},
    {3, 18, 7},
    {8, 30, 40},
    {9, 64, 129},
    {16, 48, 576},
    {17, 34, 896},
    {32, 16, 100},
    {33, 80, 1024},
    {70, 36, 72},
    {2, 300, 1234},
    {5, 1024, 64},
    {2, 34, 2600},  // more inputs than a warp has under way
    {5, 34, 2624},
    {3, 2150, 200},   // more panels than a device has blocks: in parts,
    {2, 11000, 64},   // a warp each,
    {2, 25000, 72}};  // and one after the other

class LinearOnDevice : public testing::TestWithParam<LinearEpilogue> {};

INSTANTIATE_TEST_SUITE_P(
    Epilogues,
    LinearOnDevice,
    testing::Values(LinearEpilogue::kStore, LinearEpilogue::kAddToOut, LinearEpilogue::kSiluMul),
    [](const auto& epilogue) {
      if (epilogue.param == LinearEpilogue::kStore) return "Store";
      return epilogue.param == LinearEpilogue::kAddToOut ? "AddToOut" : "SiluMul";
    }
);

TEST_P(LinearOnDevice, IsNearTheExactProduct) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(
        testing::Message() << shape.num_tokens << ", " << shape.num_rows << ", " << shape.num_inputs
    );
    for (const bool has_bias : {false, true}) {
      const Problem problem = make_problem(shape.num_rows, shape.num_inputs, GetParam(), has_bias);
      const std::vector<uint16_t> x = random_bfloat16(shape.num_tokens * shape.num_inputs, 3);
      expect_near_exact(problem, x, same_in_every_thread_order([&] { return solve(problem, x); }));
    }
  }
}

// Every token of batches of 1 to 40, in each place of a tile.
TEST_P(LinearOnDevice, GivesATokenTheSameBitsInEveryBatch) {
  const Problem problem = make_problem(46, 200, GetParam(), true);
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
  for (size_t size = 1; size <= 40; ++size) {
    for (const size_t begin : {size_t{0}, 40 - size}) {
      const std::vector<uint32_t> bits = solve(problem, rows_of_x(begin, begin + size));
      ASSERT_TRUE(std::equal(bits.begin(), bits.end(), &alone[begin * problem.num_outputs()]))
          << size << " tokens from " << begin;
    }
  }
}

// Each weight alone, so that a wrong place shows as a wrong number: rows and inputs are not mixed.
TEST(LinearOnDevice, MultipliesEachInputByItsOwnWeight) {
  constexpr size_t kRows = 20;
  constexpr size_t kInputs = 70;
  Problem problem = make_problem(kRows, kInputs, LinearEpilogue::kStore);
  std::vector<float> weights(kRows * kInputs);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 251);
  problem.weights = narrowed(weights);
  std::vector<float> x(kInputs * kInputs, 0.0F);
  for (size_t i = 0; i < kInputs; ++i) x[i * kInputs + i] = 1.0F;
  const std::vector<uint32_t> bits = solve(problem, narrowed(x));
  for (size_t token = 0; token < kInputs; ++token) {
    for (size_t row = 0; row < kRows; ++row) {
      ASSERT_EQ(std::bit_cast<float>(bits[token * kRows + row]), weights[row * kInputs + token])
          << token << ", " << row;
    }
  }
}

// As one kernel, where there are few tokens, or as two.
TEST(LinearOfNormed, HasTheBitsOfBothOneAfterTheOther) {
  for (const LinearEpilogue epilogue : {LinearEpilogue::kStore, LinearEpilogue::kSiluMul}) {
    for (const size_t hidden : {size_t{16}, size_t{52}, size_t{896}, size_t{4096}}) {
      const Problem problem = make_problem(70, hidden, epilogue, true);
      const DeviceArray<uint16_t> weights(pack(problem));
      const DeviceArray<float> bias(problem.bias);
      const DeviceArray<float> norm_weight(random_floats(hidden, 5));
      for (const size_t num_tokens : {size_t{1}, size_t{3}, size_t{8}, size_t{9}}) {
        const DeviceArray<float> x(random_floats(num_tokens * hidden, 6));
        const DeviceArray<uint16_t> normed(num_token_elements(num_tokens, hidden));
        const DeviceArray<float> out(num_tokens * problem.num_outputs());
        const DeviceArray<uint16_t> activation(num_token_elements(num_tokens, problem.num_outputs())
        );
        const RmsNormArgs norm = {
            .x = x.data(),
            .num_tokens = num_tokens,
            .hidden = hidden,
            .weight = norm_weight.data(),
            .eps = 1e-6F,
            .out = normed.data()};
        const LinearArgs args = {
            .x = normed.data(),
            .num_tokens = num_tokens,
            .num_inputs = hidden,
            .weights = weights.data(),
            .num_rows = problem.num_rows,
            .bias = bias.data(),
            .epilogue = epilogue,
            .out = out.data(),
            .activation = activation.data()};
        const auto result = [&] {
          if (!problem.is_silu_mul()) return bits_of(out.read());
          const auto rows = token_rows(activation.read(), num_tokens, problem.num_outputs());
          return std::vector<uint32_t>(rows.begin(), rows.end());
        };
        const std::vector<uint32_t> at_once = same_in_every_thread_order([&] {
          linear_of_normed({}, norm, args);
          return result();
        });
        rms_norm({}, norm);
        linear({}, args);
        ASSERT_EQ(at_once, result()) << hidden << ", " << num_tokens;
      }
    }
  }
}

TEST(LinearOnDevice, DoesNothingForNoTokens) {
  linear({}, {});
}

TEST(LinearOnDeviceDeathTest, RefusesWhatIsNotThere) {
  const DeviceArray<uint16_t> memory(64);
  LinearArgs args = {.x = memory.data(), .num_tokens = 1, .num_inputs = 8};
  args.weights = memory.data();
  EXPECT_DEATH(linear({}, args), "a matrix has rows and columns");
  args.num_rows = 2;
  EXPECT_DEATH(linear({}, args), "a product's memory");
  args.weights = memory.data() + 1;
  args.epilogue = LinearEpilogue::kSiluMul;
  args.activation = memory.data();
  EXPECT_DEATH(linear({}, args), "16-byte memory");
  args.num_rows = 3;
  EXPECT_DEATH(linear({}, args), "as many rows of gate as of up");
}

}  // namespace
}  // namespace millrace::cuda
