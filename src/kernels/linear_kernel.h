// What linear.cpp asks of each instruction set: some of the output panels, for all tokens.
// Plain data only: this header is compiled for instructions that the machine may lack (lanes.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/packed_bfloat16_layout.h"
#include "tensor/dtype.h"

namespace millrace {

enum class LinearEpilogue {
  kStore,     // out = sum + bias
  kAddToOut,  // out = out + (sum + bias): the residual, in place
  kSiluMul,   // out = silu(gate) * up, where panels alternate: 16 rows of gate, 16 rows of up
};

// A bfloat16 matrix is unpacked to floats, at most so many bytes at a time, which stay in the first
// cache.
constexpr size_t kUnpackedBytesMax = 28 << 10;

// A product by tiles takes so many tokens at once, and keeps the sums of so many panels where it
// takes their inputs in several chunks: so many floats for two of them, with a tile's rows too
// many. A thread's scratch holds all of them.
constexpr size_t kAmxBlockTokens = 512;
constexpr size_t kAmxGroupPanels = 32;
constexpr size_t amx_pair_sums(size_t num_tokens) {
  return (2 * num_tokens + 16) * 16;
}
constexpr size_t amx_scratch_bytes(size_t num_tokens) {
  const size_t num_block_tokens = num_tokens < kAmxBlockTokens ? num_tokens : kAmxBlockTokens;
  return kAmxGroupPanels / 2 * amx_pair_sums(num_block_tokens) * sizeof(float);
}

// Of a row of bytes: input ~ byte * scale, and the sum of all bytes.
struct ByteRow {
  float scale;
  int32_t sum;
};

struct LinearTask {
  // [num_tokens, num_inputs] in the kernel's input type, rows x_stride elements apart. Inputs of a
  // bfloat16 matrix are rounded to bfloat16, in rows that end with zeros up to an even number; for
  // linear_amx() they are tiles (bfloat16_rows.h), x_stride elements each.
  const void* x;
  size_t x_stride;
  const ByteRow* x_rows;  // [num_tokens] of inputs in tiles of bytes; else null
  size_t num_tokens;
  size_t num_inputs;
  const void* weights;  // [num_panels][panel_size], see packed_matrix.h
  size_t panel_size;
  BFloat16Panels bfloat16_panels;     // of a bfloat16 matrix; whole ones take linear_avx2()
  const PanelExceptions* exceptions;  // [num_panels] of one
  void* scratch;                      // of one: this thread's, thread_scratch_bytes()
  const float* bias;                  // [num_panels * 16] or null
  float* out;                         // [num_tokens, num_outputs], rows out_stride apart
  size_t out_stride;
  size_t num_outputs;
  LinearEpilogue epilogue;
  size_t hint_bytes;  // Executor::hint_bytes
  // linear_amx() writes its outputs there instead, as tiles like x; null: `out`.
  BFloat16* out_tiles;
};

// Panels [panel_begin, panel_end); both even for kSiluMul. Weight: float, Float16, or BFloat16 for
// matrices that are packed so (packed_bfloat16.h). The inputs are float.
template <class Weight>
void linear_reference(const LinearTask& task, size_t panel_begin, size_t panel_end);
template <class Weight>
void linear_avx2(const LinearTask& task, size_t panel_begin, size_t panel_end);
template <class Weight>
void linear_avx512(const LinearTask& task, size_t panel_begin, size_t panel_end);
// The same for BFloat16; the inputs are BFloat16 too.
void linear_avx512_dot(const LinearTask& task, size_t panel_begin, size_t panel_end);
// Again for BFloat16, in the order of AMX (docs/decisions/0020): its definition, whose inputs are
// float, and the kernel, whose inputs are BFloat16.
void linear_amx_reference(const LinearTask& task, size_t panel_begin, size_t panel_end);
void linear_amx(const LinearTask& task, size_t panel_begin, size_t panel_end);

}  // namespace millrace
