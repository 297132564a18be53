// Codes of other tools (CodedWeights) as tiles of linear_quantized multiply them, on sixteen lanes.
// See lanes.h for the rules of this file, group_weights_lanes.h for what `Dots` are.
#pragma once

#include "kernels/quantized/group_weights_lanes.h"

namespace millrace {
namespace {

constexpr size_t kGroupFours = kGroupInputs / 4;

// The codes of inputs 4 * kFour to + 4 of a group.
template <class Dots, class Weights, size_t kFour>
[[gnu::always_inline]] inline typename Dots::Bytes read_codes(const unsigned char* group) {
  if constexpr (Weights::kStoredBits == 8) {
    return Dots::load_bytes(group + kFour * 64);
  } else if constexpr (Weights::kCodes.is_iq4) {
    const unsigned char* const bytes = group + kFour / 2 * 64;
    const auto table = Dots::load_table(kIq4Codes);
    return kFour % 2 == 0 ? Dots::low_codes(bytes, table) : Dots::high_codes(bytes, table);
  } else {
    const unsigned char* const bytes = group + kFour / 2 * 64;
    const auto low = kFour % 2 == 0 ? Dots::low_bits(bytes) : Dots::high_bits(bytes);
    if constexpr (Weights::kHighBits == 0) {
      return low;
    } else {
      constexpr size_t kFields = 8 / Weights::kHighBits;
      return Dots::
          template with_high_bits<kFour % kFields * Weights::kHighBits, Weights::kHighBits>(
              low, group + Weights::kLowBytes + kFour / kFields * 64
          );
    }
  }
}

// The same as they are multiplied. Source: Weights, or as they were unpacked.
template <class Dots, class Weights, class Source, size_t kFour>
[[gnu::always_inline]] inline typename Dots::Weights weights_of_four(const unsigned char* group) {
  if constexpr (kAreUnpacked<Source>) {
    return Dots::load_weights(group + kFour * Dots::kUnpackedBytes);
  } else {
    return Dots::weights_of(read_codes<Dots, Weights, kFour>(group));
  }
}

// All fours of a group from kFour on, to `out`.
template <class Dots, class Weights, size_t kFour = 0>
[[gnu::always_inline]] inline void unpack_codes(const unsigned char* group, unsigned char* out) {
  if constexpr (kFour < kGroupFours) {
    const auto weights = Dots::weights_of(read_codes<Dots, Weights, kFour>(group));
    Dots::store_weights(out + kFour * Dots::kUnpackedBytes, weights);
    unpack_codes<Dots, Weights, kFour + 1>(group, out);
  }
}

// unpack_groups() of codes.
template <class Dots, class Weights>
void unpack_code_groups(const unsigned char* panel, size_t begin, size_t end, unsigned char* out) {
  for (size_t group = begin; group < end; ++group, out += kUnpackedGroupBytes<Dots>) {
    unpack_codes<Dots, Weights>(panel + Weights::kLayout.codes_offset(group), out);
  }
}

}  // namespace
}  // namespace millrace
