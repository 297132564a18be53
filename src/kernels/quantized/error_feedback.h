// Rounding that makes good its own errors: what one input's weight lost is taken over by the inputs
// after it, as far as these inputs go together (GPTQ, Frantar et al. 2022, in the form of
// successive rounding: Babai 1986).
//
// With H the second moments of a matrix's inputs as the kernel sees them and R upper triangular,
// H = R R^T, a row's output error for weights w rounded to q is |(w - q) R|^2. Its column c is
// (w[c] - q[c]) R[c][c] + sum over j < c of (w[j] - q[j]) R[j][c]: rounding w[c] plus
// sum of (w[j] - q[j]) R[j][c] / R[c][c] makes it as small as can be, column after column.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/isa.h"
#include "kernels/quantized/round_group.h"

namespace millrace {

// R[j][c] / R[c][c] of a matrix's inputs, in blocks along them: errors never leave their block.
struct ErrorFeedback {
  size_t block_size = 0;  // inputs of a block, a multiple of 64; the last one may be shorter
  // For block b, its column c and j < c: factors[b * block_size^2 + c * block_size + j].
  std::vector<float> factors;
};

// Rounds 16 rows at once. `weights`: [num_groups * 64][16], rotated; `scales`: [num_groups][16];
// `codes`: [num_groups][16]. Scale 0 makes zeros. The same bits with every `isa`.
// REQUIRES: feedback of as many inputs.
void round_with_feedback(
    QuantizedFormat format,
    std::span<const float> weights,
    std::span<const float> scales,
    const ErrorFeedback& feedback,
    std::span<GroupCodes> codes,
    Isa isa
);

}  // namespace millrace
