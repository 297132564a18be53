// out = x * transpose(weights) + bias, and what follows it in a decoder layer.
//
// Each output element is one sum over the inputs in a fixed order, each product fused into the sum
// (one rounding), whatever the number of tokens, of threads, or the instruction set: a token's
// result never depends on its neighbours.
//
//   weights            inputs              order of the sum
//   float32, float16   float32             ascending
//   bfloat16           rounded to bfloat16 pair by pair, of each pair the odd one first; then the
//                      panel's exceptions (packed_bfloat16.h); denormals are zero: what vdpbf16ps
//                      does
#pragma once

#include <optional>
#include <span>

#include "kernels/executor.h"
#include "kernels/experts/row_groups.h"
#include "kernels/linear_kernel.h"  // LinearEpilogue
#include "kernels/packed_matrix.h"
#include "kernels/rms_norm.h"
#include "kernels/rows.h"

namespace millrace {

// How activations stand in the memory of their rows.
enum class RowsForm {
  kFloats,
  kTiles,  // rounded, as to_bfloat16_tiles() writes them
};

// Whether linear() multiplies tiles with such weights.
bool takes_tiles(Isa isa, DType weights);

// In which form linear() writes what only the next linear() reads: the outputs of a first matrix
// with LinearEpilogue::kSiluMul that are the inputs of a second one of type `next`. The same bits
// either way. `rows`: where they stand.
RowsForm form_between(Isa isa, DType first, DType next, ConstRows rows);

struct LinearArgs {
  ConstRows x;                  // [num_tokens, weights.num_columns()]
  const PackedMatrix& weights;  // [num_outputs, num_inputs]
  std::span<const float> bias;  // [num_panels * 16] in the order of the packed rows; empty: none
  // kStore, kAddToOut: [num_tokens, weights.num_rows()]. kSiluMul: [num_tokens, n] where the matrix
  // has 2 * round_up(n, 16) rows. Must not overlap x. With `groups` these are the rows that a group
  // has panels for.
  Rows out;
  LinearEpilogue epilogue = LinearEpilogue::kStore;
  RowsForm x_form = RowsForm::kFloats;
  RowsForm out_form = RowsForm::kFloats;
  std::span<std::byte> scratch = {};  // linear_scratch_bytes(), aligned to 64 bytes
  PanelData next = {};                // of the matrix after this one: changes no result
  const RmsNormRows* norm = nullptr;  // what makes x, where it is not there yet; not with `groups`
  // Which rows are multiplied by which panels, if not all by all: x and out are floats then.
  std::optional<RowGroups> groups = {};
};

// Where x stands as the weights' kernel reads it, and where each thread unpacks some panels or
// keeps sums; 0 if neither is wanted. The same for every instruction set.
size_t linear_scratch_bytes(
    DType weights, size_t num_threads, size_t num_tokens, size_t num_inputs
);

// The output panels are split over the threads. No tokens: nothing happens.
void linear(const Executor& executor, const LinearArgs& args);

}  // namespace millrace
