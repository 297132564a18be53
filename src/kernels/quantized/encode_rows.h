// Activations as quantized matrices multiply them: each row rotated by a block-diagonal
// Walsh-Hadamard transform, then rounded to 8 bits, with a scale for each group of 64 inputs or one
// for the row, or to 16. Inputs of weights that are not rotated (InputRounding::kUnrotated) are
// integers of 16 bits.
//
// The rotation spreads what stands out in one input over all inputs of its block, so that 8 bits
// lose less (docs/decisions/0013; QuaRot, Ashkboos et al. 2024). It is the transform without its
// factor 1 / block: sums and differences alone. The weights were multiplied by the same transform
// and by the factor (quantized_matrix.h), so that products are what they were.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/executor.h"
#include "kernels/isa.h"
#include "kernels/linear_kernel.h"  // ByteRow
#include "kernels/quantized/encode_rows_kernel.h"
#include "kernels/quantized/input_rounding.h"
#include "kernels/rms_norm.h"
#include "kernels/rows.h"
#include "tensor/dtype.h"

namespace millrace {

// Inputs that share a scale.
constexpr size_t kActivationGroup = 64;

// How many inputs are rotated together: the largest power of two, of 64 to 1024, that divides
// num_inputs rounded up to 64.
size_t rotation_size(size_t num_inputs);

// How numbers stand in a row: as bytes, an upper and a lower one where they have 16 bits, or, for
// instruction sets without dot products of bytes, as words, whatever they have
// (docs/decisions/0032), but for inputs of int4, whose products with bytes are small enough (0034).
// With AVX2 these have behind each group what the sums of their products begin with while they are
// words, kBytesAndStarts: int16 [4][2], of each quarter of the group -kInt4Zero times the sum of
// the inputs whose products each of two words takes, the first and the second of every four, and
// the third and the fourth.
enum class InputForm : uint8_t { kBytes, kWords, kBytesAndStarts };

constexpr InputForm input_form(Isa isa, InputRounding rounding) {
  if (isa != Isa::kAvx2 && isa != Isa::kAvx512) return InputForm::kBytes;
  if (rounding != InputRounding::kRow) return InputForm::kWords;
  return isa == Isa::kAvx2 ? InputForm::kBytesAndStarts : InputForm::kBytes;
}

// Rows of activations in borrowed memory. A row, `stride` bytes long:
//
//           values[num_groups]         0 past the last input: of bytes int8 [64], or of 16 bits
//                                      int8 [2][64], upper bytes and lower ones, input ~
//                                      (256 * upper + lower) * scale; of bytes and starts int8 [64]
//                                      and int16 [4][2]; of words int16 [64] with the second and
//                                      the third of every four exchanged, in the order in which
//                                      bytes of weights become pairs of words
//   int32   starts[num_groups]         what the sum of products starts with: the sum of the values
//                                      times -kInt8Zero, with kRow -kInt4Zero, because weights have
//                                      that added (linear_quantized_kernel.h), unless words began
//                                      with it; and of 8 bits kSumStart (encode_rows_kernel.h)
//   float   scales[num_groups], or [1] of each group, or of the row: input ~ value * scale
//
// and with InputRounding::kUnrotated
//
//           values[num_groups]
//   CodedInputs [num_groups]           scales and sums (encode_rows_kernel.h)
struct EncodedRows {
  std::byte* data = nullptr;  // aligned to 64 bytes
  size_t num_rows = 0;
  size_t num_groups = 0;
  InputRounding rounding = InputRounding::kGroups;
  InputForm form = InputForm::kBytes;
  size_t stride = 0;

  // Bytes of one row, a multiple of 64.
  static size_t row_bytes(size_t num_inputs, InputRounding rounding, InputForm form);
  // Of a group's values.
  static constexpr size_t value_bytes(InputRounding rounding, InputForm form) {
    if (form == InputForm::kBytesAndStarts) return kActivationGroup + kWordStartBytes;
    return kActivationGroup * (form == InputForm::kWords ? 2 : num_terms_of(rounding));
  }
};

// Rotates and rounds every row of x into `scratch`, which the result refers to, in the form of
// executor.isa; rows are split over the threads. REQUIRES: scratch of at least x.num_rows *
// row_bytes(), aligned to 64. `norm`, where there is one, makes each row of x before it is read; so
// below.
EncodedRows encode_rows(
    const Executor& executor,
    ConstRows x,
    InputRounding rounding,
    std::span<std::byte> scratch,
    const RmsNormRows* norm = nullptr
);

// The same rotated rows rounded to bfloat16, as tiles of AMX: [ceil(num_rows / 16)][2 *
// num_groups][min(16, num_rows)][32], with the second and the third of every four inputs exchanged,
// in the order in which bytes of weights become pairs. Rows that the last tiles have too many are
// not written.
struct RotatedTiles {
  BFloat16* data = nullptr;
  size_t num_rows = 0;
  size_t num_groups = 0;
  size_t tile_bytes = 0;

  // Bytes of all tiles.
  static size_t num_bytes(size_t num_rows, size_t num_inputs);
};

// Into `scratch`, as encode_rows(); of at least RotatedTiles::num_bytes().
RotatedTiles rotate_to_tiles(
    const Executor& executor,
    ConstRows x,
    std::span<std::byte> scratch,
    const RmsNormRows* norm = nullptr
);

// Rotated rows rounded to 8 bits with one scale for all of a row, as tiles of AMX: int8
// [ceil(num_rows / 16)][num_groups][min(16, num_rows)][64], 0 past the last input. Rows that the
// last tiles have too many are not written.
struct ByteTiles {
  std::byte* data = nullptr;
  const ByteRow* rows = nullptr;  // [num_rows]
  size_t num_rows = 0;
  size_t num_groups = 0;
  size_t tile_bytes = 0;

  // Bytes of all tiles and of `rows` behind them.
  static size_t num_bytes(size_t num_rows, size_t num_inputs);
};

// Into `scratch`, as encode_rows(); of at least ByteTiles::num_bytes().
ByteTiles encode_to_tiles(
    const Executor& executor,
    ConstRows x,
    std::span<std::byte> scratch,
    const RmsNormRows* norm = nullptr
);

// Rotates `rows` in place, as encode_rows() does: blocks of `size`, a power of two of 64 to 1024
// that divides the length. For weights.
void rotate(Isa isa, std::span<float> rows, size_t size);

}  // namespace millrace
