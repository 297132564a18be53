#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "cuda/kernels/code_tiles.h"
#include "cuda/kernels/cuda_test_data.h"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/linear_quantized.h"
#include "cuda/kernels/product_blocks.h"
#include "cuda/kernels/wide_tiles.h"

namespace millrace::cuda {
namespace {

struct Matrix {
  size_t num_rows;
  size_t num_inputs;
};

// Parts from one to eight; chunks that do and do not divide the stages of a block's shared memory,
// pairs without a second chunk, and panels that are and are not a multiple of the block's warps.
constexpr Matrix kMatrices[] = {
    {40, 64}, {200, 640}, {1152, 896}, {1160, 576}, {8000, 576}, {34000, 832}};
constexpr LinearEpilogue kEpilogues[] = {
    LinearEpilogue::kStore, LinearEpilogue::kAddToOut, LinearEpilogue::kSiluMul};

// Any bytes are codes and scales; the scales of rows are such that results are around one.
std::vector<uint16_t> random_codes(const Matrix& matrix, LinearEpilogue epilogue, uint32_t bits) {
  const CodePanelLayout layout(bits, matrix.num_inputs);
  const size_t num_panels = num_code_panels(matrix.num_rows, epilogue);
  std::vector<uint16_t> codes(num_panels * layout.num_bytes() / 2);
  for (size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<uint16_t>(random_unit(4, i) * 65536.0);
  }
  const std::vector<float> units = random_floats(num_panels * kTileRows, 5);
  for (size_t i = 0; i < units.size(); ++i) {
    const uint32_t scale = std::bit_cast<uint32_t>((units[i] + 1.5F) / 65536.0F);
    const size_t place = i / kTileRows * layout.num_bytes() + layout.row_scales_begin() +
                         i % kTileRows * sizeof(float);
    codes[place / 2] = static_cast<uint16_t>(scale);
    codes[place / 2 + 1] = static_cast<uint16_t>(scale >> 16);
  }
  return codes;
}

// No format: weights of bfloat16.
std::vector<uint16_t> random_weights(
    const Matrix& matrix, LinearEpilogue epilogue, std::optional<QuantizedFormat> format
) {
  if (format) {
    return random_codes(matrix, epilogue, *format == QuantizedFormat::kInt8 ? 8 : 4);
  }
  const size_t num_rows = num_linear_panels(matrix.num_rows, epilogue) * kTileRows;
  return random_bfloat16(num_weight_elements(num_rows, matrix.num_inputs), 1);
}

class WideProblem {
 public:
  WideProblem(
      const Matrix& matrix,
      LinearEpilogue epilogue,
      std::optional<QuantizedFormat> format,
      size_t num_tokens
  )
      : matrix_(matrix),
        epilogue_(epilogue),
        format_(format),
        weights_(random_weights(matrix, epilogue, format)),
        bias_(random_floats(matrix.num_rows, 2)),
        x_(random_bfloat16(num_tokens * matrix.num_inputs, 3)) {}

  size_t num_outputs() const { return is_silu_mul() ? matrix_.num_rows / 2 : matrix_.num_rows; }

  // The bits of the products of tokens [begin, end), row-major.
  std::vector<uint32_t> solve(size_t begin, size_t end) const {
    const size_t num_tokens = end - begin;
    const auto at = [&](size_t token) {
      return x_.begin() + static_cast<std::ptrdiff_t>(token * matrix_.num_inputs);
    };
    const DeviceArray<uint16_t> x(token_tiles({at(begin), at(end)}, matrix_.num_inputs));
    const DeviceArray<float> out(std::vector<float>(num_tokens * num_outputs(), 0.5F));
    const DeviceArray<uint16_t> activation(num_token_elements(num_tokens, num_outputs()));
    const LinearArgs args = {
        .x = x.data(),
        .num_tokens = num_tokens,
        .num_inputs = matrix_.num_inputs,
        .weights = weights_.data(),
        .num_rows = matrix_.num_rows,
        .bias = bias_.data(),
        .epilogue = epilogue_,
        .out = out.data(),
        .activation = activation.data()};
    format_ ? linear_quantized({}, *format_, args) : linear({}, args);
    if (!is_silu_mul()) return bits_of(out.read());
    const std::vector<uint16_t> rows = token_rows(activation.read(), num_tokens, num_outputs());
    return {rows.begin(), rows.end()};
  }

 private:
  bool is_silu_mul() const { return epilogue_ == LinearEpilogue::kSiluMul; }

  Matrix matrix_;
  LinearEpilogue epilogue_;
  std::optional<QuantizedFormat> format_;
  DeviceArray<uint16_t> weights_;
  DeviceArray<float> bias_;
  std::vector<uint16_t> x_;
};

// With which tiles of every size are chosen: see below.
constexpr size_t kCounts[] = {33, 65, 128, 129, 256, 300, 512};

// Whether a prompt is one with a token is asked here: wgmma's bits are those of mma.sync.
void expect_bits_of_few(const Matrix& matrix, std::optional<QuantizedFormat> format) {
  constexpr size_t kTokens = 512;
  constexpr size_t kFew = 4;
  for (const LinearEpilogue epilogue : kEpilogues) {
    const WideProblem problem(matrix, epilogue, format, kTokens);
    std::vector<uint32_t> few;
    for (size_t token = 0; token < kTokens; token += kFew) {
      const std::vector<uint32_t> bits = problem.solve(token, token + kFew);
      few.insert(few.end(), bits.begin(), bits.end());
    }
    for (const size_t count : kCounts) {
      const size_t begin = kTokens - count;
      const std::vector<uint32_t> bits = problem.solve(begin, kTokens);
      const uint32_t* const expected = &few[begin * problem.num_outputs()];
      const auto differs = std::mismatch(bits.begin(), bits.end(), expected).first;
      ASSERT_EQ(differs, bits.end())
          << matrix.num_rows << " rows, " << count << " tokens, element " << differs - bits.begin();
    }
  }
}

TEST(LinearWide, IsAskedAboutTilesOfEverySizeInPartsAndWithout) {
  constexpr size_t kOfAnH100 = 132;
  std::set<std::pair<uint32_t, bool>> found;
  for (const Matrix& matrix : kMatrices) {
    const size_t num_panels = num_linear_panels(matrix.num_rows, LinearEpilogue::kStore);
    const size_t num_chunks = num_chunks_of(matrix.num_inputs);
    const bool has_parts = num_k_parts(num_panels, num_chunks) > 1;
    for (const size_t count : kCounts) {
      found.emplace(tokens_of_wide_tile(num_panels, count, num_chunks, kOfAnH100), has_parts);
    }
  }
  EXPECT_EQ(found.size(), 2 * std::size(kWideTokens));
}

TEST(LinearWide, GivesATokenTheBitsThatItHasAmongFew) {
  for (const Matrix& matrix : kMatrices) expect_bits_of_few(matrix, std::nullopt);
}
TEST(LinearWide, GivesATokenTheBitsThatItHasAmongFewWithCodesOf8Bits) {
  for (const Matrix& matrix : kMatrices) expect_bits_of_few(matrix, QuantizedFormat::kInt8);
}
TEST(LinearWide, GivesATokenTheBitsThatItHasAmongFewWithCodesOf4Bits) {
  for (const Matrix& matrix : kMatrices) expect_bits_of_few(matrix, QuantizedFormat::kInt4);
}

}  // namespace
}  // namespace millrace::cuda
