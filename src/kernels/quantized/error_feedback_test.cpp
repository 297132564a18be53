#include "kernels/quantized/error_feedback.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/math.h"
#include "kernels/quantized/quantized_test_data.h"
#include "kernels/quantized/round_panel_kernel.h"

namespace millrace {
namespace {

constexpr size_t kGroup = QuantizedMatrix::kGroup;
constexpr size_t kRows = QuantizedMatrix::kPanelRows;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Factors in [-most, most) below the diagonal; what stands elsewhere must not be read.
ErrorFeedback random_feedback(size_t num_columns, size_t block_size, float most, uint64_t seed) {
  const size_t width = round_up(num_columns, kGroup);
  const size_t num_blocks = div_ceil(width, block_size);
  ErrorFeedback feedback{
      .block_size = block_size,
      .factors = random_floats(num_blocks * block_size * block_size, seed)};
  for (size_t i = 0; i < feedback.factors.size(); ++i) {
    const size_t c = i / block_size % block_size;
    const size_t block = i / (block_size * block_size);
    const bool is_read = i % block_size < c && block * block_size + c < width;
    feedback.factors[i] = is_read ? feedback.factors[i] * most : kNaN;
  }
  return feedback;
}

ErrorFeedback zero_feedback(size_t num_columns, size_t block_size) {
  ErrorFeedback feedback = random_feedback(num_columns, block_size, 0.0F, 1);
  for (float& factor : feedback.factors) factor = 0.0F;
  return feedback;
}

QuantizedMatrix quantized_with(
    const ErrorFeedback& feedback,
    QuantizedFormat format,
    std::span<const float> rows,
    size_t num_columns,
    Isa isa = best_isa()
) {
  const size_t num_rows = rows.size() / num_columns;
  QuantizedMatrix matrix = *QuantizedMatrix::allocate(format, num_rows, num_columns);
  for (size_t panel = 0; panel < matrix.num_panels(); ++panel) {
    const size_t begin = panel * kRows;
    const size_t count = std::min(kRows, num_rows - begin);
    const auto part = rows.subspan(begin * num_columns, count * num_columns);
    matrix.pack_panel(panel, part, feedback, isa);
  }
  return matrix;
}

struct Shape {
  size_t num_columns;
  size_t block_size;
};
// One group, odd numbers of groups, inputs that fill none, blocks of unequal size.
constexpr Shape kShapes[] = {
    {1, 64}, {64, 64}, {190, 192}, {320, 128}, {448, 256}, {832, 832}, {1088, 1024}, {2100, 1024}};

// Every third row some groups far larger than others, every fifth row zero; what is no number.
std::vector<float> hostile_rows(size_t num_rows, size_t num_columns) {
  std::vector<float> rows = random_floats(num_rows * num_columns, num_columns + num_rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t row = i / num_columns;
    const size_t group = i % num_columns / kGroup;
    if (row % 3 == 1) rows[i] = std::ldexp(rows[i], 12 * (static_cast<int>(group) - 8));
    if (row % 5 == 2) rows[i] = 0.0F;
    if (row == 3) rows[i] = std::ldexp(rows[i], -140);
    if (row == 6) rows[i] *= 1e38F;
  }
  rows[0] = kInfinity;
  if (num_rows > 8) rows[8 * num_columns] = -kInfinity;
  rows[rows.size() / 2] = kNaN;
  rows.back() = 3e38F;
  return rows;
}

TEST(ErrorFeedback, GivesTheSameBitsOnEveryInstructionSet) {
  for (const Shape& shape : kShapes) {
    const std::vector<float> rows = random_floats(21 * shape.num_columns, 5);
    const ErrorFeedback feedback = random_feedback(shape.num_columns, shape.block_size, 0.05F, 6);
    for (const QuantizedFormat format : kQuantizedFormats) {
      const auto expected =
          bytes_of(quantized_with(feedback, format, rows, shape.num_columns, Isa::kReference));
      // It is not what rounding to nearest gives, where there is more than one input.
      EXPECT_TRUE(
          shape.num_columns == 1 || expected != bytes_of(quantized(format, rows, shape.num_columns))
      );
      for (const Isa isa : supported_isas()) {
        const auto found = bytes_of(quantized_with(feedback, format, rows, shape.num_columns, isa));
        EXPECT_EQ(found, expected) << name_of(format) << ' ' << name_of(isa) << ' '
                                   << shape.num_columns << " by " << shape.block_size;
      }
    }
  }
}

TEST(ErrorFeedback, WithoutFactorsIsRoundingToNearest) {
  for (const Shape& shape : kShapes) {
    const ErrorFeedback feedback = zero_feedback(shape.num_columns, shape.block_size);
    const std::vector<float> plain = random_floats(18 * shape.num_columns, 7);
    const std::vector<float> hostile = hostile_rows(18, shape.num_columns);
    for (const QuantizedFormat format : kQuantizedFormats) {
      for (const std::vector<float>* rows : {&plain, &hostile}) {
        EXPECT_EQ(
            bytes_of(quantized_with(feedback, format, *rows, shape.num_columns)),
            bytes_of(quantized(format, *rows, shape.num_columns))
        ) << name_of(format)
          << ' ' << shape.num_columns << " by " << shape.block_size;
      }
    }
  }
}

double entry_of(QuantizedFormat format, unsigned char code) {
  if (format == QuantizedFormat::kInt4) return static_cast<double>(kInt4Codebook.entries[code]);
  return static_cast<double>(code) - (format == QuantizedFormat::kInt8 ? 128.0 : 32.0);
}

// The distance of `wanted` from the nearest entry.
double nearest_distance(QuantizedFormat format, double wanted) {
  double least = std::numeric_limits<double>::infinity();
  const int first = format == QuantizedFormat::kInt4 ? 0 : 1;
  const int last = format == QuantizedFormat::kInt8   ? 255
                   : format == QuantizedFormat::kInt6 ? 63
                                                      : 15;
  for (int code = first; code <= last; ++code) {
    const double entry = entry_of(format, static_cast<unsigned char>(code));
    least = std::min(least, std::abs(wanted - entry));
  }
  return least;
}

// The definition: each code is nearest to its weight and what the codes before it in its block lost
// times their factors.
TEST(ErrorFeedback, RoundsEachWeightTogetherWithWhatWasLostBeforeIt) {
  constexpr size_t kColumns = 320;
  constexpr size_t kBlock = 128;
  const std::vector<float> weights = random_floats(kColumns * kRows, 11);
  std::vector<float> scales = random_floats(kColumns / kGroup * kRows, 12);
  const ErrorFeedback feedback = random_feedback(kColumns, kBlock, 0.1F, 13);
  for (const QuantizedFormat format : kQuantizedFormats) {
    for (float& scale : scales) scale = (0.7F + 0.5F * std::abs(scale)) / 127.0F;
    std::vector<GroupCodes> codes(kColumns / kGroup * kRows);
    round_with_feedback(format, weights, scales, feedback, codes, best_isa());
    for (size_t row = 0; row < kRows; ++row) {
      std::vector<double> lost(kColumns);
      for (size_t column = 0; column < kColumns; ++column) {
        const size_t begin = column / kBlock * kBlock;
        const auto weight = static_cast<double>(weights[column * kRows + row]);
        const auto scale = static_cast<double>(scales[column / kGroup * kRows + row]);
        double wanted = weight;
        for (size_t j = begin; j < column; ++j) {
          const float factor = feedback.factors[column * kBlock + j - begin];
          wanted += static_cast<double>(factor) * lost[j];
        }
        const unsigned char code = codes[column / kGroup * kRows + row][column % kGroup];
        const double entry = entry_of(format, code);
        lost[column] = weight - entry * scale;
        ASSERT_GE(entry, -127.0);
        ASSERT_LE(std::abs(wanted / scale - entry), nearest_distance(format, wanted / scale) + 1e-3)
            << name_of(format) << " row " << row << " column " << column;
      }
    }
  }
}

// Tokens whose inputs are mixtures of a few directions, and a little of their own. `directions`:
// [num_directions, num_columns].
std::vector<float> correlated_inputs(
    const std::vector<float>& directions, size_t num_columns, size_t num_tokens, uint64_t seed
) {
  const size_t num_directions = directions.size() / num_columns;
  const std::vector<float> shares = random_floats(num_tokens * num_directions, seed);
  std::vector<float> inputs = random_floats(num_tokens * num_columns, seed + 1);
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] *= 0.2F;
    for (size_t d = 0; d < num_directions; ++d) {
      inputs[i] += shares[i / num_columns * num_directions + d] *
                   directions[d * num_columns + i % num_columns];
    }
  }
  return inputs;
}

// From the inputs as the kernel sees them. One block.
ErrorFeedback feedback_from(std::vector<float> inputs, size_t num_columns) {
  rotate(Isa::kReference, inputs, rotation_size(num_columns));
  std::vector<double> moments(num_columns * num_columns);
  for (size_t token = 0; token < inputs.size(); token += num_columns) {
    for (size_t i = 0; i < num_columns; ++i) {
      const auto input = static_cast<double>(inputs[token + i]);
      for (size_t j = 0; j < num_columns; ++j) {
        moments[i * num_columns + j] += input * static_cast<double>(inputs[token + j]);
      }
    }
  }
  double trace = 0.0;
  for (size_t i = 0; i < num_columns; ++i) trace += moments[i * (num_columns + 1)];
  for (size_t i = 0; i < num_columns; ++i) {
    moments[i * (num_columns + 1)] += 0.1 * trace / static_cast<double>(num_columns);
  }
  const std::vector<double> r = upper_factor(moments, num_columns);
  ErrorFeedback feedback = zero_feedback(num_columns, num_columns);
  for (size_t c = 0; c < num_columns; ++c) {
    for (size_t j = 0; j < c; ++j) {
      const double factor = r[j * num_columns + c] / r[c * (num_columns + 1)];
      feedback.factors[c * num_columns + j] = static_cast<float>(factor);
    }
  }
  return feedback;
}

// The sum of ((w - q) x)^2 over all rows and tokens.
double output_error(
    const QuantizedMatrix& matrix, std::span<const float> rows, std::span<const float> inputs
) {
  const size_t width = matrix.num_columns();
  std::vector<float> row(width);
  double error = 0.0;
  for (size_t r = 0; r < matrix.num_rows(); ++r) {
    matrix.copy_row(r, row);
    for (size_t token = 0; token < inputs.size(); token += width) {
      double difference = 0.0;
      for (size_t i = 0; i < width; ++i) {
        const auto lost = static_cast<double>(rows[r * width + i] - row[i]);
        difference += lost * static_cast<double>(inputs[token + i]);
      }
      error += difference * difference;
    }
  }
  return error;
}

TEST(ErrorFeedback, LeavesFarLessErrorInTheOutputsThanRoundingToNearest) {
  for (const size_t num_columns : {64, 192, 256}) {
    const std::vector<float> directions = random_floats(8 * num_columns, 21);
    const ErrorFeedback feedback =
        feedback_from(correlated_inputs(directions, num_columns, 600, 22), num_columns);
    // Tokens that the feedback was not made from.
    const std::vector<float> inputs = correlated_inputs(directions, num_columns, 100, 23);
    const std::vector<float> rows = random_floats(32 * num_columns, 24);
    for (const QuantizedFormat format : kQuantizedFormats) {
      const QuantizedMatrix fed = quantized_with(feedback, format, rows, num_columns);
      const double error = output_error(fed, rows, inputs);
      const double plain = output_error(quantized(format, rows, num_columns), rows, inputs);
      EXPECT_LT(error, 0.25 * plain) << name_of(format) << ' ' << num_columns;
      RecordProperty(
          std::string(name_of(format)) + std::to_string(num_columns), std::to_string(error / plain)
      );
    }
  }
}

TEST(ErrorFeedback, MakesFiniteWeightsOfWhatIsNoNumber) {
  for (const Shape& shape : kShapes) {
    const std::vector<float> rows = hostile_rows(18, shape.num_columns);
    for (const float most : {0.1F, 1e30F, kNaN}) {
      const ErrorFeedback feedback = random_feedback(shape.num_columns, shape.block_size, most, 8);
      for (const QuantizedFormat format : kQuantizedFormats) {
        const QuantizedMatrix matrix = quantized_with(feedback, format, rows, shape.num_columns);
        std::vector<float> row(shape.num_columns);
        for (size_t r = 0; r < 18; ++r) {
          matrix.copy_row(r, row);
          const bool is_finite =
              std::ranges::all_of(row, [](float value) { return std::isfinite(value); });
          EXPECT_TRUE(is_finite) << name_of(format) << " row " << r << ' ' << shape.num_columns;
          const bool is_zero = std::ranges::all_of(row, [](float value) { return value == 0.0F; });
          EXPECT_TRUE(r % 5 != 2 || r == 17 || is_zero) << name_of(format) << " row " << r;
        }
        for (const Isa isa : supported_isas()) {
          const auto found =
              bytes_of(quantized_with(feedback, format, rows, shape.num_columns, isa));
          EXPECT_EQ(found, bytes_of(matrix)) << name_of(format) << ' ' << name_of(isa);
        }
      }
    }
  }
}

TEST(ErrorFeedback, MakesTheLowestCodeOfASumThatIsNoNumber) {
  const std::vector<float> weights = random_floats(kGroup * kRows, 31);
  const std::vector<float> scales(kRows, 0.01F);
  ErrorFeedback feedback = zero_feedback(kGroup, kGroup);
  for (const size_t column : {3, 30}) {
    for (size_t j = 0; j < column; ++j) feedback.factors[column * kGroup + j] = kNaN;
  }
  for (const QuantizedFormat format : kQuantizedFormats) {
    std::vector<GroupCodes> codes(kRows);
    round_with_feedback(format, weights, scales, feedback, codes, best_isa());
    const unsigned char lowest = format == QuantizedFormat::kInt4 ? 0 : 1;
    for (const GroupCodes& row : codes) {
      EXPECT_EQ(row[3], lowest);
      EXPECT_EQ(row[30], lowest);
    }
  }
}

TEST(ErrorFeedbackDeath, RefusesFeedbackOfAnotherMatrix) {
  const std::vector<float> rows = random_floats(16 * 256, 9);
  const auto pack = [&](const ErrorFeedback& feedback) {
    (void)quantized_with(feedback, QuantizedFormat::kInt8, rows, 256);
  };
  pack(zero_feedback(256, 128));
  EXPECT_DEATH(pack(zero_feedback(128, 128)), "feedback of this matrix's inputs");
  EXPECT_DEATH(pack(zero_feedback(320, 128)), "feedback of this matrix's inputs");
  EXPECT_DEATH(pack(ErrorFeedback{}), "blocks of whole groups");
  EXPECT_DEATH(pack({.block_size = 100, .factors = {}}), "blocks of whole groups");
}

}  // namespace
}  // namespace millrace
