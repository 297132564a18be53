// What quantized_matrix.cpp asks of each instruction set: sixteen rotated rows rounded to 8, 6 or 4
// bits, as round_group.h defines it row by row. Plain data only (lanes.h).
#pragma once

#include <cstddef>

#include "kernels/quantized/linear_quantized_kernel.h"

namespace millrace {

// What a weight is clamped to, so that sums of squares stay finite.
constexpr float kWeightMost = 1e16F;

// Scales of int4 that are tried: the first, and what each next one is larger by, in units of that
// which makes a group's largest weight the lowest entry.
constexpr int kNumScalesTried = 8;
constexpr float kFirstScaleTried = 0.78F;
constexpr float kScaleTriedStep = 0.06F;
// What an int4 weight is clamped to before its code is looked up, in units of its group's scale:
// beyond the codebook, and beyond every weight in units of a scale that is tried.
constexpr float kInt4Beyond = 45.0F;
static_assert(kInt4Most / kFirstScaleTried < kInt4Beyond);
// A group whose largest weight is below this is zero.
constexpr float kInt4PeakLeast = 0x1p-126F * 1024.0F;

// The codebook's entries, and the middles between them.
struct Int4Codebook {
  float entries[16];
  float middles[15];
};
constexpr Int4Codebook kInt4Codebook = [] {
  Int4Codebook book = {};
  for (int i = 0; i < 16; ++i) book.entries[i] = static_cast<float>(kInt4Codes[i] - kInt4Zero);
  for (int i = 0; i < 15; ++i) book.middles[i] = (book.entries[i] + book.entries[i + 1]) / 2.0F;
  return book;
}();

// Of formats whose codes are whole numbers.
struct WholeCodes {
  float most;  // of either sign
  float zero;  // what codes have added
};
template <class Weights>
constexpr WholeCodes kWholeCodes = {};  // none of int4
template <>
inline constexpr WholeCodes kWholeCodes<Int8Weights> = {127.0F, kInt8Zero};
template <>
inline constexpr WholeCodes kWholeCodes<Int6Weights> = {kInt6Most, kInt6Zero};
template <class Weights>
constexpr bool kAreWhole = kWholeCodes<Weights>.most > 0.0F;

struct RoundPanelTask {
  const float* rows;  // [16][num_groups * 64], to be multiplied by `factor`
  float factor;
  size_t num_groups;
  float* scales;         // scratch [num_groups][16]
  unsigned char* panel;  // out: of QuantizedMatrix
};

// Where a panel keeps its parts: the codes of a group, its scales [16], and the rows' [16] floats.
template <class Weights>
constexpr unsigned char* codes_of(const RoundPanelTask& task, size_t group) {
  return task.panel + Weights::kLayout.codes_offset(group);
}
template <class Weights>
constexpr unsigned char* scales_of(const RoundPanelTask& task, size_t group) {
  return task.panel + Weights::kLayout.scales_offset(group);
}
template <class Weights>
constexpr unsigned char* row_scales_of(const RoundPanelTask& task) {
  return task.panel + Weights::kLayout.row_scales_offset(task.num_groups);
}

// Weights: Int8Weights, Int4Weights or Int6Weights. All sixteen rows; one of zeros gets scales of 1
// and 0.
template <class Weights>
void round_panel_reference(const RoundPanelTask& task);
template <class Weights>
void round_panel_avx2(const RoundPanelTask& task);
template <class Weights>
void round_panel_avx512(const RoundPanelTask& task);

}  // namespace millrace
