// What encode_rows.cpp asks of each instruction set. Plain data only (lanes.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/linear_kernel.h"  // ByteRow
#include "kernels/quantized/input_rounding.h"
#include "tensor/dtype.h"

namespace millrace {

constexpr size_t kRotationMax = 1024;

// The bits of kRoundingShift (lanes.h): an integer sum of products that starts with them is, as the
// bits of a float, kRoundingShift + the sum. REQUIRES: a magnitude of at most 2^22; 64 products of
// two bytes have 2^20.
constexpr int32_t kSumStart = 0x4B400000;

// Behind a group's bytes what words of their products begin with (InputForm::kBytesAndStarts).
constexpr size_t kWordStartBytes = 16;

// A group or row whose largest magnitude is less is rounded as if it were this, to zeros or nearly:
// its steps have a finite inverse.
constexpr float kLeastPeak = 0x1p-100F;

// Of a group of 64 inputs in 16 bits each. The sums of those numbers, of all inputs and of either
// half, are what bases of weights are multiplied by.
// Where weights have none, sums of products start with the code of zero times those of parts: 128
// times them, or a power of two less (start_of_part()).
struct CodedInputs {
  float scale = 0.0F;
  float sum = 0.0F;
  float half_sums[2] = {};
  int32_t starts[4] = {};  // of quarters
};
constexpr int kStartBits = 7;  // a start is -2^kStartBits times a quarter's sum
// The number of the largest magnitude, where inputs are numbers of 16 bits: its upper byte is 127,
// and the lower one 0.
constexpr float kNumberPeak = 127.0F * 256.0F;

// Rows that are rotated.
struct RowsToRotate {
  const float* x;  // [num_rows, num_inputs], rows stride apart
  size_t stride;
  size_t num_inputs;
  size_t rotation;         // inputs of a block: a power of two, 64 to kRotationMax
  size_t num_groups;       // of 64 inputs; a whole number of blocks
  bool is_rotated = true;  // else blocks of 64, as they are
};

struct EncodeTask {
  RowsToRotate rows;
  InputRounding rounding;
  int weight_zero;  // what weights have added, and starts take away
  bool in_words;
  bool has_word_starts;  // which take it away instead
  size_t value_bytes;    // of a group
  unsigned char* out;    // see EncodedRows
  size_t out_stride;
};

void encode_rows_reference(const EncodeTask& task, size_t row_begin, size_t row_end);
void encode_rows_avx2(const EncodeTask& task, size_t row_begin, size_t row_end);
void encode_rows_avx512(const EncodeTask& task, size_t row_begin, size_t row_end);

// Where words and tiles have input i of every four; the same says which input is at a place.
constexpr size_t kTilePlaces[4] = {0, 2, 1, 3};

struct RotatedTilesTask {
  RowsToRotate rows;
  BFloat16* tiles;   // see RotatedTiles
  size_t tile_rows;  // of a whole one
};

void write_rotated_tiles_reference(const RotatedTilesTask& task, size_t row_begin, size_t row_end);
void write_rotated_tiles_avx512(const RotatedTilesTask& task, size_t row_begin, size_t row_end);

struct ByteTilesTask {
  RowsToRotate rows;
  unsigned char* tiles;  // see ByteTiles
  size_t tile_rows;      // of a whole one
  ByteRow* encoded;
};

void encode_to_tiles_reference(const ByteTilesTask& task, size_t row_begin, size_t row_end);
void encode_to_tiles_avx512(const ByteTilesTask& task, size_t row_begin, size_t row_end);

// One block of `size` floats, in place.
void rotate_reference(float* block, size_t size);
void rotate_avx2(float* block, size_t size);
void rotate_avx512(float* block, size_t size);

}  // namespace millrace
