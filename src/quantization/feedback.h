// From the moments of a matrix's inputs to the feedback of its rounding errors.
#pragma once

#include <span>

#include "base/thread_pool.h"
#include "kernels/quantized/error_feedback.h"
#include "quantization/input_moments.h"

namespace millrace {

// The part of the mean square that is added to each square (GPTQ's damping), so that a few thousand
// tokens are not taken for all there is.
constexpr double kFeedbackDamping = 0.3;

// `divisors`: what smoothing divides the inputs by, [num_inputs before padding]. The inputs are
// rotated as encode_rows() does. A block without moments, or with some that are no numbers, has
// factors of zero.
ErrorFeedback feedback_of(
    const BlockMoments& moments, std::span<const float> divisors, ThreadPool& pool
);

}  // namespace millrace
