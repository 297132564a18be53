// The sizes of packed_bfloat16.h, for those who read it. Plain data only: this header is compiled
// for instructions that the machine may lack (lanes.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace {

enum class BFloat16Panels {
  kPacked,  // 12 bits a weight
  kWhole,   // 16
};

constexpr size_t kPackedTableBytes = 64;
constexpr size_t kPackedBlockColumns = 8;
constexpr size_t kPackedBlockPairs = 4;
constexpr size_t kPackedCodeBytes = 64;  // of a block
constexpr size_t kPackedPairBytes = 32;  // signs and mantissas of a pair
constexpr size_t kPackedBlockBytes = kPackedCodeBytes + kPackedBlockPairs * kPackedPairBytes;

constexpr size_t kWholePairBytes = 64;  // both weights of sixteen rows
constexpr size_t kWholeBlockBytes = kPackedBlockPairs * kWholePairBytes;

// A weight whose exponent is not in its panel's table.
struct WeightException {
  uint32_t column;
  uint16_t row;  // within the panel
  uint16_t bits;
};

// The exceptions of one panel, in the order of their columns.
struct PanelExceptions {
  const WeightException* data;
  size_t size;
};

}  // namespace millrace
