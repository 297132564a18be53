// What error_feedback.cpp asks of each instruction set. Plain data only (lanes.h).
#pragma once

#include <cstddef>

namespace millrace {

constexpr size_t kFeedbackColumns = 8;  // that are carried to at once

// carried[c][row] = sum over j, ascending, of factors[c * stride + j] * errors[j][row], each
// product fused into the sum. `errors`: [num_errors][16]; `carried`: [kFeedbackColumns][16].
void carry_errors_reference(
    const float* errors, size_t num_errors, const float* factors, size_t stride, float* carried
);
void carry_errors_avx2(
    const float* errors, size_t num_errors, const float* factors, size_t stride, float* carried
);
void carry_errors_avx512(
    const float* errors, size_t num_errors, const float* factors, size_t stride, float* carried
);

}  // namespace millrace
