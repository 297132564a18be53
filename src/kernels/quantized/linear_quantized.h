// linear() with weights of 8, 6 or 4 bits and activations of 8 or 16 bits, both rotated; or with
// codes of other tools and activations of 16 bits, neither of them rotated, whose sum is
// CodesGroupByGroup of linear_quantized_ref.cpp.
//
// Each output element is a sum over groups of 64 inputs in ascending order: the exact integer sum
// of a group's products, converted, with its product with the weights' scale of that group fused
// into the sum; then times the row's scale, then times the token's. Where groups of activations
// have scales of their own, the product with the weights' scale is rounded and that with the
// activations' is fused.
//
// With AMX int8 and int4 have another sum (docs/decisions/0020), so that tiles need not be scaled
// group by group; int6 has not, and no tiles.
//
// int4 is brought to steps that all groups of a row share (scaled_code() of
// linear_quantized_kernel.h), and activations have one scale a token: the exact integer sum of all
// products, converted, times the token's scale, times the row's. Rows of more inputs than int32
// holds sums of are multiplied group by group.
//
// With int8 activations are rounded to bfloat16, which loses less than 8 bits
// do, and weights (cut_to_bfloat16() of linear_quantized_kernel.h) are multiplied as those of a
// bfloat16 matrix are there: of 32 inputs the first two of every four in one chain of fused
// multiply-adds from zero and the other two in another, then sum += the two; last, times the row's
// scale. Denormals are zero.
//
// A token's result never depends on its neighbours or on threads; on the instruction set only so.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "kernels/executor.h"
#include "kernels/experts/row_groups.h"
#include "kernels/linear_kernel.h"  // LinearEpilogue
#include "kernels/quantized/input_rounding.h"
#include "kernels/quantized/quantized_matrix.h"
#include "kernels/rms_norm.h"
#include "kernels/rows.h"

namespace millrace {

// Whether such weights are multiplied as bfloat16, by tiles.
[[nodiscard]] bool multiplies_bfloat16(Isa isa, QuantizedFormat weights);

struct LinearQuantizedArgs {
  ConstRows x;  // [num_tokens, weights.num_columns()]
  const QuantizedMatrix& weights;
  std::span<const float> bias;  // [num_panels * 16] in the order of the packed rows; empty: none
  // kStore, kAddToOut: [num_tokens, weights.num_rows()]. kSiluMul: [num_tokens, n] where the matrix
  // has 2 * round_up(n, 16) rows. With `groups` these are the rows that a group has panels for.
  Rows out;
  LinearEpilogue epilogue = LinearEpilogue::kStore;
  InputRounding rounding;  // of x: kRow for int4, kUnrotated for codes alone; AMX has its own
  std::span<std::byte> scratch = {};  // linear_quantized_scratch_bytes(), aligned to 64 bytes
  PanelData next = {};                // as LinearArgs
  const RmsNormRows* norm = nullptr;  // as LinearArgs
  // As LinearArgs; the scratch is that of kGroupedRowsFactor times as many tokens then.
  std::optional<RowGroups> groups = {};
};

// Tiles of 16 rows may hold little more than half as many.
constexpr size_t kGroupedRowsFactor = 2;

// Where x stands as the kernel reads it, and where each thread keeps sums. The same for every
// instruction set.
size_t linear_quantized_scratch_bytes(
    InputRounding rounding, size_t num_threads, size_t num_tokens, size_t num_inputs
);

// The output panels are split over the threads. No tokens: nothing happens.
void linear_quantized(const Executor& executor, const LinearQuantizedArgs& args);

}  // namespace millrace
