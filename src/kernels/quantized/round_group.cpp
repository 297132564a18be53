#include "kernels/quantized/round_group.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/quantized/code_bits.h"

namespace millrace {
namespace {

constexpr size_t kGroup = QuantizedMatrix::kGroup;
constexpr float kScaleMax = 255.0F;

using Group = std::span<const float, kGroup>;

float peak_of(Group values) {
  float peak = 0.0F;
  for (const float value : values) peak = std::max(peak, std::fabs(value));
  return peak;
}

// Indices of the nearest entries of values * inverse.
GroupCodes nearest_entries(Group values, float inverse) {
  std::array<float, kGroup> counts = {};  // floats: the comparisons are in float registers
  for (const float middle : kInt4Codebook.middles) {
    for (size_t i = 0; i < kGroup; ++i) counts[i] += values[i] * inverse > middle ? 1.0F : 0.0F;
  }
  GroupCodes codes;
  for (size_t i = 0; i < kGroup; ++i) codes[i] = static_cast<unsigned char>(counts[i]);
  return codes;
}

GroupCodes nearest_steps(const WholeCodes& whole, Group values, float inverse) {
  GroupCodes codes;
  for (size_t i = 0; i < kGroup; ++i) {
    const float value = std::clamp(values[i] * inverse, -whole.most, whole.most);
    codes[i] = static_cast<unsigned char>(static_cast<int>(value + (whole.zero + 0.5F)));
  }
  return codes;
}

struct Fit {
  float scale = 0.0F;
  float gain = -1.0F;  // by how much the squared error is below that of all zeros
};

// The scale of least squares for the entries that `scale` makes nearest.
Fit fit(Group values, float scale) {
  const GroupCodes codes = nearest_entries(values, 1.0F / scale);
  float dot = 0.0F;
  float square = 0.0F;
  for (size_t i = 0; i < kGroup; ++i) {
    const float entry = kInt4Codebook.entries[codes[i]];
    dot += values[i] * entry;
    square += entry * entry;
  }
  if (!(square > 0.0F) || !(dot > 0.0F)) return {};
  return {.scale = dot / square, .gain = dot * (dot / square)};
}

// The scale of the smallest squared error among some: where the largest value is rounded to the
// lowest entry or a little beyond it.
float best_scale(Group values) {
  const float peak = peak_of(values);
  if (!(peak > kInt4PeakLeast)) return 0.0F;
  Fit best;
  for (int i = 0; i < kNumScalesTried; ++i) {
    const float part = kFirstScaleTried + kScaleTriedStep * static_cast<float>(i);
    const Fit found = fit(values, peak / kInt4Most * part);
    if (found.gain > best.gain) best = found;
  }
  return best.scale;
}

// Whole numbers of 1 .. 255 for scales of up to 255 * unit.
float whole_scale(QuantizedFormat format, float scale, float unit) {
  if (!(unit > 0.0F)) return 1.0F;
  const float units = scale / unit;
  // What has steps alone rounds up, so that nothing is clipped; the factor takes back what the
  // division rounded.
  const float whole =
      whole_codes(format) ? std::ceil(units * (1.0F - 1e-6F)) : std::floor(units + 0.5F);
  return std::clamp(whole, 1.0F, kScaleMax);
}

}  // namespace

float scale_groups(
    QuantizedFormat format, std::span<float> row, float factor, std::span<float> group_scales
) {
  for (float& value : row) {
    value = std::isnan(value) ? 0.0F : std::clamp(value * factor, -kWeightMost, kWeightMost);
  }
  float largest = 0.0F;
  for (size_t group = 0; group < group_scales.size(); ++group) {
    const Group values(&row[group * kGroup], kGroup);
    const auto whole = whole_codes(format);
    group_scales[group] = whole ? peak_of(values) / whole->most : best_scale(values);
    largest = std::max(largest, group_scales[group]);
  }
  const float unit = largest / kScaleMax;
  for (float& scale : group_scales) scale = whole_scale(format, scale, unit);
  return unit;
}

GroupCodes round_group(QuantizedFormat format, Group values, float scale) {
  const float inverse =
      scale > 0.0F ? std::min(1.0F / scale, std::numeric_limits<float>::max()) : 0.0F;
  const auto whole = whole_codes(format);
  return whole ? nearest_steps(*whole, values, inverse) : nearest_entries(values, inverse);
}

void put_codes(QuantizedFormat format, unsigned char* group, size_t row, const GroupCodes& codes) {
  const int bits = own_bits(format);
  for (size_t input = 0; input < kGroup; ++input) {
    put_code_bits(group, row, input, bits, codes[input]);
  }
}

}  // namespace millrace
