#include "kernels/quantized/linear_quantized.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/math.h"
#include "kernels/quantized/encode_rows.h"
#include "kernels/quantized/encode_rows_kernel.h"
#include "kernels/quantized/linear_quantized_kernel.h"
#include "kernels/quantized/quantized_test_data.h"

namespace millrace {
namespace {

struct Shape {
  size_t num_tokens;
  size_t num_inputs;
  size_t num_outputs;
};

// Part groups, every height of a tile with its leftovers, several tiles, more than one block of
// tokens, part panels and many panels; more groups than stay in the first cache, for few tokens,
// for two tiles and for many; more inputs than a chunk of many tokens has.
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = [] {
    std::vector<Shape> shapes;
    for (const size_t num_tokens : {1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 17, 33}) {
      shapes.push_back({num_tokens, 100, 16 * 15 + 5});
      shapes.push_back({num_tokens, 64, 16});
    }
    shapes.push_back({1, 1, 1});
    shapes.push_back({70, 65, 40});
    shapes.push_back({131, 128, 17});
    shapes.push_back({3, 576, 16 * 23});
    for (const size_t num_tokens : {1, 2, 3, 4, 5, 8, 20}) shapes.push_back({num_tokens, 1900, 37});
    shapes.push_back({520, 1900, 3});
    return shapes;
  }();
  return all;
}

struct Problem {
  Shape shape;
  InputRounding rounding;
  LinearEpilogue epilogue;
  QuantizedMatrix weights;
  std::vector<float> x;
  std::vector<float> bias;  // empty or one for each packed row
  std::vector<float> out;   // as it is before
};

Problem make_problem(
    const Shape& shape, const Quantization& quantization, LinearEpilogue epilogue, bool with_bias
) {
  const size_t num_rows = epilogue == LinearEpilogue::kSiluMul
                              ? 2 * round_up<size_t>(shape.num_outputs, 16)
                              : shape.num_outputs;
  const std::vector<float> rows = random_floats(num_rows * shape.num_inputs, 11);
  Problem problem = {
      .shape = shape,
      .rounding = quantization.rounding,
      .epilogue = epilogue,
      .weights = quantized(quantization.format, rows, shape.num_inputs),
      .x = random_floats(shape.num_tokens * shape.num_inputs, 12),
      .bias = {},
      .out = random_floats(shape.num_tokens * shape.num_outputs, 13),
  };
  if (with_bias) problem.bias = random_floats(problem.weights.num_panels() * 16, 14);
  return problem;
}

std::vector<float> solve_for(
    const Executor& executor, const Problem& problem, std::vector<float> x, std::vector<float> out
) {
  Buffer scratch = *Buffer::allocate(linear_quantized_scratch_bytes(
      problem.rounding,
      executor.pool.num_threads(),
      x.size() / problem.shape.num_inputs,
      problem.shape.num_inputs
  ));
  linear_quantized(
      executor,
      {.x = rows_of(x, problem.shape.num_inputs),
       .weights = problem.weights,
       .bias = problem.bias,
       .out = rows_of(out, problem.shape.num_outputs),
       .epilogue = problem.epilogue,
       .rounding = problem.rounding,
       .scratch = scratch.bytes()}
  );
  return out;
}

std::vector<float> solve(const Executor& executor, const Problem& problem) {
  return solve_for(executor, problem, problem.x, problem.out);
}

// The activations as they were rounded, rotated back: [num_tokens, num_inputs].
std::vector<float> rounded_inputs(const Problem& problem) {
  ThreadPool pool(1);
  const size_t num_inputs = problem.shape.num_inputs;
  std::vector<float> x = problem.x;
  constexpr InputForm kForm = InputForm::kBytes;
  Buffer scratch = *Buffer::allocate(
      problem.shape.num_tokens * EncodedRows::row_bytes(num_inputs, problem.rounding, kForm)
  );
  const EncodedRows rows = encode_rows(
      {Isa::kReference, pool}, rows_of(x, num_inputs), problem.rounding, scratch.bytes()
  );
  const size_t value_bytes = EncodedRows::value_bytes(problem.rounding, kForm);
  const size_t rotation = is_rotated(problem.rounding) ? rotation_size(num_inputs) : 1;
  for (size_t token = 0; token < rows.num_rows; ++token) {
    const std::byte* row = rows.data + token * rows.stride;
    const std::byte* behind_values = row + rows.num_groups * value_bytes;
    std::vector<float> values(rows.num_groups * 64);
    const auto scale_of = [&](size_t group) {
      if (rows.rounding == InputRounding::kUnrotated) {
        CodedInputs coded;
        std::memcpy(&coded, behind_values + group * sizeof coded, sizeof coded);
        return coded.scale;
      }
      float scale = 0.0F;
      const size_t index = rows.num_groups + (has_row_scales(rows.rounding) ? 0 : group);
      std::memcpy(&scale, behind_values + index * sizeof scale, sizeof scale);
      return scale;
    };
    for (size_t group = 0; group < rows.num_groups; ++group) {
      const std::byte* const bytes = row + group * value_bytes;
      for (size_t i = 0; i < 64; ++i) {
        int number = static_cast<int8_t>(bytes[i]);
        if (value_bytes == 128) number = 256 * number + static_cast<int8_t>(bytes[64 + i]);
        values[group * 64 + i] = static_cast<float>(number) * scale_of(group);
      }
    }
    if (is_rotated(rows.rounding)) rotate(Isa::kReference, values, rotation);
    for (size_t i = 0; i < num_inputs; ++i) {
      x[token * num_inputs + i] = values[i] / static_cast<float>(rotation);
    }
  }
  return x;
}

double exact_sum(const Problem& problem, std::span<const float> x, size_t row) {
  std::vector<float> weights(problem.shape.num_inputs);
  problem.weights.copy_row(row, weights);
  double sum = problem.bias.empty() ? 0.0 : static_cast<double>(problem.bias[row]);
  for (size_t k = 0; k < weights.size(); ++k) {
    sum += static_cast<double>(weights[k]) * static_cast<double>(x[k]);
  }
  return sum;
}

double exact_output(const Problem& problem, std::span<const float> x, size_t index) {
  const size_t token = index / problem.shape.num_outputs;
  const size_t column = index % problem.shape.num_outputs;
  const std::span<const float> row =
      x.subspan(token * problem.shape.num_inputs, problem.shape.num_inputs);
  switch (problem.epilogue) {
    case LinearEpilogue::kStore:
      return exact_sum(problem, row, column);
    case LinearEpilogue::kAddToOut:
      return exact_sum(problem, row, column) + static_cast<double>(problem.out[index]);
    case LinearEpilogue::kSiluMul: {
      const size_t gate_row = column / 16 * 32 + column % 16;
      const double gate = exact_sum(problem, row, gate_row);
      return gate / (1.0 + std::exp(-gate)) * exact_sum(problem, row, gate_row + 16);
    }
  }
  return 0.0;
}

constexpr LinearEpilogue kEpilogues[] = {
    LinearEpilogue::kStore, LinearEpilogue::kAddToOut, LinearEpilogue::kSiluMul};

TEST(LinearQuantized, IsTheProductOfWhatWasRounded) {
  ThreadPool pool(1);
  for (const LinearEpilogue epilogue : kEpilogues) {
    for (const Quantization& quantization : all_quantizations()) {
      const Problem problem = make_problem({3, 192, 37}, quantization, epilogue, true);
      const std::vector<float> x = rounded_inputs(problem);
      const std::vector<float> out = solve({Isa::kReference, pool}, problem);
      for (size_t i = 0; i < out.size(); ++i) {
        const double exact = exact_output(problem, x, i);
        EXPECT_NEAR(out[i], exact, 2e-4) << name_of(quantization.format) << " element " << i;
      }
    }
  }
}

TEST(LinearQuantized, HasTheSameBitsOnEveryInstructionSetAndThreadCount) {
  ThreadPool one(1);
  ThreadPool three(3);
  for (const LinearEpilogue epilogue : kEpilogues) {
    for (const Quantization& quantization : all_quantizations()) {
      // What becomes of sums is the same whatever the codes.
      const bool is_first =
          !are_codes(quantization.format) || quantization.format == format_of_index(0);
      if (!is_first && epilogue != LinearEpilogue::kStore) continue;
      for (const Shape& shape : shapes()) {
        const bool with_bias = shape.num_tokens % 2 == 1;
        const Problem problem = make_problem(shape, quantization, epilogue, with_bias);
        const std::vector<float> by_groups = solve({Isa::kReference, one}, problem);
        const std::vector<float> by_tiles = solve({Isa::kAmxReference, one}, problem);
        for (const Isa isa : supported_isas()) {
          if (is_reference(isa)) continue;
          const auto& expected = reference_of(isa) == Isa::kReference ? by_groups : by_tiles;
          for (const size_t hint_bytes : {0, 4096, 12288}) {  // none, near ones, far ones
            ASSERT_EQ(bits_of(solve({isa, one, hint_bytes}, problem)), bits_of(expected))
                << name_of(isa) << ' ' << name_of(quantization.format) << ' ' << shape.num_tokens
                << " x " << shape.num_inputs << " x " << shape.num_outputs << ", hints "
                << hint_bytes;
          }
          ASSERT_EQ(bits_of(solve({isa, three}, problem)), bits_of(expected)) << name_of(isa);
        }
      }
    }
  }
}

TEST(LinearQuantized, IsNearlyTheProductOfUnroundedInputsWithTwoTerms) {
  ThreadPool pool(1);
  std::vector<QuantizedFormat> formats = {QuantizedFormat::kInt8};
  for (const QuantizedFormat format : formats_of_codes()) formats.push_back(format);
  for (const QuantizedFormat format : formats) {
    const Problem problem = make_problem({3, 192, 37}, format, LinearEpilogue::kStore, true);
    const std::vector<float> out = solve({Isa::kReference, pool}, problem);
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_NEAR(out[i], exact_output(problem, problem.x, i), 1e-3)
          << name_of(format) << " element " << i;
    }
  }
}

// The largest codes and the least, and inputs whose upper bytes are 127 or whose lower ones are
// -128.
TEST(LinearQuantized, IsExactWhereCodesAreLargest) {
  ThreadPool pool(1);
  for (const QuantizedFormat format : formats_of_codes()) {
    const CodeFormat codes = *code_format(format);
    const auto largest = codes.is_iq4 ? kIq4Codes[15] : static_cast<uint8_t>((1 << codes.bits) - 1);
    const uint8_t least = codes.is_iq4 ? kIq4Codes[0] : 0;
    for (const auto& [code, input] :
         {std::pair(largest, 1.0F),
          std::pair(largest, 0.5F / 127.0F),
          std::pair(largest, -1.0F),
          std::pair(least, 1.0F),
          std::pair(least, -1.0F)}) {
      std::vector<float> x(64, input);
      x[0] = 1.0F;  // of which a step is 1 / (127 * 256)
      Problem problem = {
          .shape = {1, 64, 16},
          .rounding = InputRounding::kUnrotated,
          .epilogue = LinearEpilogue::kStore,
          .weights = *QuantizedMatrix::allocate(format, 16, 64),
          .x = x,
          .bias = {},
          .out = std::vector<float>(16),
      };
      const std::vector<uint8_t> all(16 * 64, code);
      const std::vector<float> scales(16 * 64 / codes.num_inputs, 1.0F);
      const std::vector<float> bases(scales.size(), -static_cast<float>(codes.zero_code()));
      problem.weights.pack_codes(0, {all, scales, bases});
      const float weight = static_cast<float>(code) + -static_cast<float>(codes.zero_code());
      const float expected = weight * (1.0F + 63.0F * input);
      for (const Isa isa : supported_isas()) {
        const std::vector<float> found = solve({isa, pool}, problem);
        for (const float value : found) {
          EXPECT_NEAR(value, expected, std::fabs(expected) * 1e-6F)
              << name_of(format) << ' ' << name_of(isa) << ": " << int{code} << " x " << input;
        }
        EXPECT_EQ(bits_of(found), bits_of(solve({reference_of(isa), pool}, problem)));
      }
    }
  }
}

// One input that is infinite or no number leaves no number of its token, and others as they are.
TEST(LinearQuantized, HasNoNumbersOfCodesTimesWhatIsNone) {
  ThreadPool pool(1);
  for (const QuantizedFormat format : formats_of_codes()) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      Problem problem = make_problem({2, 192, 16}, format, LinearEpilogue::kStore, false);
      problem.x[70] = bad;
      for (const Isa isa : supported_isas()) {
        const std::vector<float> out = solve({isa, pool}, problem);
        for (size_t i = 0; i < 16; ++i) {
          EXPECT_TRUE(std::isnan(out[i])) << name_of(format) << ' ' << name_of(isa) << ' ' << i;
          EXPECT_TRUE(std::isfinite(out[16 + i])) << name_of(format) << ' ' << name_of(isa);
        }
      }
    }
  }
}

// A group of inputs that are larger than all others takes no bits of those.
TEST(LinearQuantized, KeepsSmallInputsOfUint4BesideLargeOnes) {
  ThreadPool pool(1);
  Problem problem =
      make_problem({1, 192, 16}, QuantizedFormat::kUint4, LinearEpilogue::kStore, false);
  std::vector<float> large(192);
  for (size_t i = 0; i < 64; ++i) large[i] = std::exchange(problem.x[i], 0.0F) * 30000.0F;
  std::vector<float> both = problem.x;
  for (size_t i = 0; i < 64; ++i) both[i] = large[i];
  const std::vector<float> all = solve_for({best_isa(), pool}, problem, both, problem.out);
  const std::vector<float> of_large = solve_for({best_isa(), pool}, problem, large, problem.out);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(all[i] - of_large[i], exact_output(problem, problem.x, i), 0.05) << i;
  }
}

// How far outputs by tiles are from the product of unrounded inputs, and their part of it.
struct Closeness {
  double relative_error;
  double part;
};

Closeness closeness_by_tiles(QuantizedFormat format) {
  ThreadPool pool(1);
  const Problem problem = make_problem({9, 192, 370}, format, LinearEpilogue::kStore, false);
  const std::vector<float> out = solve({Isa::kAmxReference, pool}, problem);
  double error = 0.0;
  double product = 0.0;
  double square = 0.0;
  for (size_t i = 0; i < out.size(); ++i) {
    const double exact = exact_output(problem, problem.x, i);
    const auto found = static_cast<double>(out[i]);
    error += (found - exact) * (found - exact);
    product += found * exact;
    square += exact * exact;
  }
  return {std::sqrt(error / square), product / square};
}

// Weights and inputs lose 0.0017 each; without the factor that makes good what cutting takes away
// from weights, the mean of many outputs would be 0.0023 too small.
TEST(LinearQuantized, IsNearlyTheProductOfUnroundedInputsByTiles) {
  const Closeness closeness = closeness_by_tiles(QuantizedFormat::kInt8);
  EXPECT_LT(closeness.relative_error, 0.003);
  EXPECT_NEAR(closeness.part, 1.0, 0.0005);
}

// Weights of 4 bits lose 0.08 before: what is brought to steps of a row, and inputs of 8 bits, lose
// an eighth of that. A scale of 255 brings small codes to the edge of a step, whose middle is
// nearer to zero: a third of these groups, a fourteenth of those of 896 inputs.
TEST(LinearQuantized, IsNearlyTheProductOfUnroundedInputsByTilesOfBytes) {
  const Closeness closeness = closeness_by_tiles(QuantizedFormat::kInt4);
  EXPECT_LT(closeness.relative_error, 0.011);
  EXPECT_NEAR(closeness.part, 1.0, 0.0025);
}

TEST(LinearQuantized, BringsCodesToStepsOfTheirRow) {
  for (const unsigned char stored : kInt4Codes) {
    const int code = stored - kInt4Zero;
    for (int scale = 1; scale <= 255; ++scale) {
      const int steps = scaled_code(code, scale);
      ASSERT_GE(steps, -116);
      ASSERT_LE(steps, 115);
      // The middle of the step that the product is in.
      ASSERT_LE(std::abs(64 * steps + 32 - code * scale), 32) << code << ' ' << scale;
    }
  }
}

// int32 would not hold their sums.
TEST(LinearQuantized, MultipliesVeryWideRowsGroupByGroup) {
  ThreadPool pool(1);
  const Problem problem =
      make_problem({2, 65537, 3}, QuantizedFormat::kInt4, LinearEpilogue::kStore, false);
  const std::vector<float> expected = solve({Isa::kReference, pool}, problem);
  for (const Isa isa : supported_isas()) {
    EXPECT_EQ(bits_of(solve({isa, pool}, problem)), bits_of(expected)) << name_of(isa);
  }
}

// The largest sums that int32 is to hold.
TEST(LinearQuantized, SumsTheLargestBytesOfTheWidestRows) {
  ThreadPool pool(1);
  constexpr size_t kNumInputs = 65536;
  constexpr size_t kRotation = 1024;
  std::vector<float> ones(kNumInputs, 0.0F);
  for (size_t i = 0; i < kNumInputs; i += kRotation) ones[i] = 1.0F;  // rotated: all alike
  const Problem problem = {
      .shape = {1, kNumInputs, 1},
      .rounding = InputRounding::kRow,
      .epilogue = LinearEpilogue::kStore,
      .weights = quantized(QuantizedFormat::kInt4, ones, kNumInputs),
      .x = ones,
      .bias = {},
      .out = {0.0F},
  };
  const std::span<const std::byte> panel = problem.weights.panel(0);
  ASSERT_EQ(panel[Int4Weights::kLayout.codes_offset(0)], std::byte{0xFF});
  ASSERT_EQ(panel[Int4Weights::kLayout.scales_offset(0)], std::byte{255});
  for (const Isa isa : supported_isas()) {
    EXPECT_NEAR(solve({isa, pool}, problem)[0], 64.0F, 0.5F) << name_of(isa);
  }
}

TEST(LinearQuantized, IsExactWhereBytesAreLargest) {
  // 255 * 127 twice is more than 16 bits hold; 61 or 63 * 127 four times is not, and nearly.
  ThreadPool pool(1);
  for (const QuantizedFormat format : kQuantizedFormats) {
    std::vector<float> ones(64, 0.0F);
    ones[0] = 1.0F;  // rotated: 64 equal values, the largest code each
    Problem problem = {
        .shape = {1, 64, 1},
        .rounding = Quantization(format).rounding,
        .epilogue = LinearEpilogue::kStore,
        .weights = quantized(format, ones, 64),
        .x = ones,
        .bias = {},
        .out = {0.0F},
    };
    for (const Isa isa : supported_isas()) {
      const std::vector<float> expected = solve({reference_of(isa), pool}, problem);
      EXPECT_NEAR(expected[0], 1.0F, 0.01F);
      EXPECT_EQ(bits_of(solve({isa, pool}, problem)), bits_of(expected)) << name_of(isa);
    }
  }
}

TEST(LinearQuantized, GivesATokenTheSameBitsAloneAndAmongOthers) {
  ThreadPool pool(2);
  for (const Quantization& quantization : all_quantizations()) {
    for (const Isa isa : supported_isas()) {
      const Problem all = make_problem({77, 150, 100}, quantization, LinearEpilogue::kStore, false);
      const std::vector<float> together = solve({isa, pool}, all);
      for (size_t token = 0; token < 77; token += 4) {
        const std::vector<float> alone = solve_for(
            {isa, pool},
            all,
            {&all.x[token * 150], &all.x[token * 150] + 150},
            std::vector<float>(100)
        );
        const auto expected = bits_of(std::span(together).subspan(token * 100, 100));
        EXPECT_EQ(bits_of(alone), expected);
      }
    }
  }
}

TEST(LinearQuantized, DoesNothingForNoTokens) {
  ThreadPool pool(1);
  const Problem problem =
      make_problem({0, 20, 30}, QuantizedFormat::kInt8, LinearEpilogue::kStore, false);
  EXPECT_TRUE(solve({Isa::kReference, pool}, problem).empty());
}

TEST(LinearQuantizedDeathTest, RefusesShapesThatDoNotFit) {
  ThreadPool pool(1);
  Problem problem =
      make_problem({2, 65, 30}, QuantizedFormat::kInt8, LinearEpilogue::kStore, false);
  problem.shape.num_inputs = 13;
  problem.x.resize(26);
  EXPECT_DEATH(solve({best_isa(), pool}, problem), "x has the weights' inputs");
}

}  // namespace
}  // namespace millrace
