#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/kernels/cuda_test_data.h"
#include "cuda/kernels/linear.h"

namespace millrace::cuda {
namespace {

struct Matrix {
  size_t num_rows;
  size_t num_inputs;
};

// One part and eight; chunks that do and do not divide the stages of a block's shared memory, and
// panels its warps.
constexpr Matrix kMatrices[] = {{40, 64}, {200, 640}, {1152, 896}, {34000, 832}};
constexpr LinearEpilogue kEpilogues[] = {
    LinearEpilogue::kStore, LinearEpilogue::kAddToOut, LinearEpilogue::kSiluMul};

class WideProblem {
 public:
  WideProblem(const Matrix& matrix, LinearEpilogue epilogue, size_t num_tokens)
      : matrix_(matrix),
        epilogue_(epilogue),
        weights_(random_bfloat16(
            num_weight_elements(
                num_linear_panels(matrix.num_rows, epilogue) * kTileRows, matrix.num_inputs
            ),
            1
        )),
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
    linear(
        {},
        {.x = x.data(),
         .num_tokens = num_tokens,
         .num_inputs = matrix_.num_inputs,
         .weights = weights_.data(),
         .num_rows = matrix_.num_rows,
         .bias = bias_.data(),
         .epilogue = epilogue_,
         .out = out.data(),
         .activation = activation.data()}
    );
    if (!is_silu_mul()) return bits_of(out.read());
    const std::vector<uint16_t> rows = token_rows(activation.read(), num_tokens, num_outputs());
    return {rows.begin(), rows.end()};
  }

 private:
  bool is_silu_mul() const { return epilogue_ == LinearEpilogue::kSiluMul; }

  Matrix matrix_;
  LinearEpilogue epilogue_;
  DeviceArray<uint16_t> weights_;
  DeviceArray<float> bias_;
  std::vector<uint16_t> x_;
};

// Whether a prompt is one with a token is asked here: wgmma's bits are those of mma.sync.
TEST(LinearWide, GivesATokenTheBitsThatItHasAmongFew) {
  constexpr size_t kTokens = 300;
  for (const Matrix& matrix : kMatrices) {
    for (const LinearEpilogue epilogue : kEpilogues) {
      const WideProblem problem(matrix, epilogue, kTokens);
      std::vector<uint32_t> few;
      for (size_t token = 0; token < kTokens; token += 5) {
        const std::vector<uint32_t> bits = problem.solve(token, token + 5);
        few.insert(few.end(), bits.begin(), bits.end());
      }
      for (const size_t count : {size_t{33}, size_t{65}, size_t{128}, size_t{129}, kTokens}) {
        const size_t begin = kTokens - count;
        const std::vector<uint32_t> bits = problem.solve(begin, kTokens);
        const uint32_t* const expected = &few[begin * problem.num_outputs()];
        const auto differs = std::mismatch(bits.begin(), bits.end(), expected).first;
        ASSERT_EQ(differs, bits.end()) << matrix.num_rows << " rows, " << count
                                       << " tokens, element " << differs - bits.begin();
      }
    }
  }
}

}  // namespace
}  // namespace millrace::cuda
