#include "kernels/quantized/error_feedback.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"
#include "base/math.h"
#include "kernels/dispatch.h"
#include "kernels/quantized/error_feedback_kernel.h"
#include "kernels/quantized/round_panel_kernel.h"

namespace millrace {
namespace {

constexpr size_t kRows = QuantizedMatrix::kPanelRows;
constexpr size_t kGroup = QuantizedMatrix::kGroup;
static_assert(kGroup % kFeedbackColumns == 0, "columns that are carried to at once share scales");

using CarryFunction = void (*)(const float*, size_t, const float*, size_t, float*);
constexpr IsaVersions<CarryFunction> kVersions = {
    carry_errors_reference, carry_errors_avx2, carry_errors_avx512};

float inverse_of(float scale) {
  return scale > 0.0F ? std::min(1.0F / scale, std::numeric_limits<float>::max()) : 0.0F;
}

// As round_group() does it; what is no number becomes the lowest code.
unsigned char nearest_code(QuantizedFormat format, float value) {
  if (const auto whole = whole_codes(format)) {
    const float bounded = value > -whole->most ? std::min(value, whole->most) : -whole->most;
    return static_cast<unsigned char>(static_cast<int>(bounded + (whole->zero + 0.5F)));
  }
  int code = 0;
  for (const float middle : kInt4Codebook.middles) code += value > middle ? 1 : 0;
  return static_cast<unsigned char>(code);
}

float entry_of(QuantizedFormat format, unsigned char code) {
  const auto whole = whole_codes(format);
  return whole ? static_cast<float>(code) - whole->zero : kInt4Codebook.entries[code];
}

// One block of inputs: all of its columns in order.
class Block {
 public:
  Block(QuantizedFormat format, const float* factors, size_t stride, CarryFunction carry)
      : format_(format), factors_(factors), stride_(stride), carry_(carry) {}

  // `weights`: [num_columns][16]; `scales`, `codes`: of its groups.
  void round(
      std::span<const float> weights, std::span<const float> scales, std::span<GroupCodes> codes
  ) {
    errors_.resize(weights.size());
    for (size_t first = 0; first < weights.size() / kRows; first += kFeedbackColumns) {
      std::array<float, kFeedbackColumns* kRows> carried = {};
      carry_(errors_.data(), first, factors_ + first * stride_, stride_, carried.data());
      for (size_t c = 0; c < kFeedbackColumns; ++c) {
        const size_t column = first + c;
        const size_t group = column / kGroup;
        float* const own = &carried[c * kRows];
        add_nearest_errors(first, c, own);
        for (size_t row = 0; row < kRows; ++row) {
          const float weight = weights[column * kRows + row];
          const float scale = scales[group * kRows + row];
          const float wanted = (weight + own[row]) * inverse_of(scale);
          const unsigned char code = nearest_code(format_, wanted);
          errors_[column * kRows + row] = weight - entry_of(format_, code) * scale;
          codes[group * kRows + row][column % kGroup] = code;
        }
      }
    }
  }

 private:
  // Those of the columns that are rounded together with column first + c, before it.
  void add_nearest_errors(size_t first, size_t c, float* carried) const {
    for (size_t before = first; before < first + c; ++before) {
      const float factor = factors_[(first + c) * stride_ + before];
      for (size_t row = 0; row < kRows; ++row) {
        carried[row] += factor * errors_[before * kRows + row];
      }
    }
  }

  QuantizedFormat format_;
  const float* factors_;
  size_t stride_;
  CarryFunction carry_;
  std::vector<float> errors_;  // [num_columns][16]: weights less what they became
};

}  // namespace

void round_with_feedback(
    QuantizedFormat format,
    std::span<const float> weights,
    std::span<const float> scales,
    const ErrorFeedback& feedback,
    std::span<GroupCodes> codes,
    Isa isa
) {
  const size_t num_columns = weights.size() / kRows;
  const size_t size = feedback.block_size;
  CHECK(size > 0 && size % kGroup == 0 && num_columns % kGroup == 0, "blocks of whole groups");
  CHECK(
      feedback.factors.size() == div_ceil(num_columns, size) * size * size,
      "feedback of this matrix's inputs"
  );
  for (size_t begin = 0; begin < num_columns; begin += size) {
    const size_t count = std::min(size, num_columns - begin);
    const float* const factors = &feedback.factors[begin / size * size * size];
    const size_t first_group = begin / kGroup * kRows;
    const size_t num_scales = count / kGroup * kRows;
    Block(format, factors, size, kVersions.find(isa))
        .round(
            weights.subspan(begin * kRows, count * kRows),
            scales.subspan(first_group, num_scales),
            codes.subspan(first_group, num_scales)
        );
  }
}

}  // namespace millrace
