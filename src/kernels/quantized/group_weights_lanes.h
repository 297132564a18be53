// The weights of a group as tiles of linear_quantized multiply them, on sixteen lanes. See lanes.h
// for the rules of this file. A type `Dots` says how sixteen rows' sums are kept and multiplied:
//
//   Floats, Inputs, Sums              sixteen floats; four inputs; sixteen integers
//   Bytes, Weights                    16 x 4 bytes; the same as they are multiplied
//   kInputBytes                       of an input: 1, or 2 of words (EncodedRows)
//   kFewSums                          up to so many wait for their own last product
//   kUnpacks, kUnpackedBytes          whether many tokens multiply weights unpacked for them, one
//                                     panel after another; the bytes of Weights then
//   load_bytes(p)                     64 bytes
//   low_bits(p), high_bits(p)         the lower and upper four bits of 64 bytes
//   with_high_bits<from, n>(low, p)   those and, above them, n bits from bit `from` of 64 bytes on
//   low_codes(p, lut), high_codes     the same, looked up
//   load_table(codes)                 sixteen bytes, for the two above
//   weights_of(bytes)
//   store_weights(p, w), load_weights(p)   unpacked ones
//   broadcast_inputs(p), broadcast_sum(i)
//   dot(weights, inputs, sums)        sums + the exact products of unsigned weights, signed inputs
//   dot_at(weights, p, sums)          the same with inputs out of memory, where there is such one
//   kInputsAtOnce                     whose products are added: 4 by dot(); 8, where there is only
//   dot(weights, inputs, weights, inputs, sums); or 16, by way of Words of 16 bits, which begin
//                                     with what comes behind a group's inputs (InputForm):
//   broadcast_words(p), add_to_words(weights, inputs, words), add_words(words, sums)
//   add(a, b), times_256(a)           of sums
//   as_floats(sums), to_floats(sums)  the same bits; the same numbers
//   load_scales(p)                    sixteen unsigned bytes as floats
#pragma once

#include "kernels/lanes.h"
#include "kernels/quantized/linear_quantized_kernel.h"
#include "kernels/quantized/scaled_sums_lanes.h"
#include "kernels/quantized/tile_memory_lanes.h"

namespace millrace {
namespace {

constexpr size_t kGroupSteps = kGroupInputs / 8;
// Of a group's inputs, and what words begin with.
template <class Dots>
constexpr size_t kInputGroupBytes = Dots::kInputBytes* kGroupInputs +
                                    (Dots::kInputsAtOnce == 16 ? kWordStartBytes : 0);

// Weights of a panel as they are multiplied, unpacked once for many tokens.
template <class Weights>
struct Unpacked {};
template <class Dots>
constexpr size_t kUnpackedGroupBytes = kGroupInputs / 4 * Dots::kUnpackedBytes;
template <class Source>
constexpr bool kAreUnpacked = false;
template <class Weights>
constexpr bool kAreUnpacked<Unpacked<Weights>> = true;
// Whether a tile is one of many tokens, which asks for later weights meanwhile.
template <class Source, size_t kPanels>
constexpr bool kLooksAhead = kAreUnpacked<Source> || kPanels > 1;

template <class Dots, bool kHigh>
[[gnu::always_inline]] inline typename Dots::Weights read_weights(
    Int8Weights, const unsigned char* group, size_t step, typename Dots::Table
) {
  return Dots::weights_of(Dots::load_bytes(group + (2 * step + (kHigh ? 1 : 0)) * 64));
}
template <class Dots, bool kHigh>
[[gnu::always_inline]] inline typename Dots::Weights read_weights(
    Int4Weights, const unsigned char* group, size_t step, typename Dots::Table table
) {
  const unsigned char* const bytes = group + step * 64;
  return Dots::weights_of(kHigh ? Dots::high_codes(bytes, table) : Dots::low_codes(bytes, table));
}
// The upper bits of four times four inputs share bytes.
template <class Dots, bool kHigh>
[[gnu::always_inline]] inline typename Dots::Weights read_weights(
    Int6Weights, const unsigned char* group, size_t step, typename Dots::Table
) {
  constexpr size_t kFrom = kHigh ? 2 : 0;
  const unsigned char* const upper = group + Int6Weights::kLowBytes + step / 2 * 64;
  const auto lower = kHigh ? Dots::high_bits(group + step * 64) : Dots::low_bits(group + step * 64);
  return Dots::weights_of(
      step % 2 == 0 ? Dots::template with_high_bits<kFrom, 2>(lower, upper)
                    : Dots::template with_high_bits<kFrom + 4, 2>(lower, upper)
  );
}
template <class Dots, bool kHigh, class Weights>
[[gnu::always_inline]] inline typename Dots::Weights read_weights(
    Unpacked<Weights>, const unsigned char* group, size_t step, typename Dots::Table
) {
  return Dots::load_weights(group + (2 * step + (kHigh ? 1 : 0)) * Dots::kUnpackedBytes);
}

// Groups [begin, end) of a panel, [end - begin][kUnpackedGroupBytes<Dots>].
template <class Dots, class Weights>
void unpack_groups(const unsigned char* panel, size_t begin, size_t end, unsigned char* out) {
  const typename Dots::Table table = Dots::load_table(kInt4Codes);
  for (size_t group = begin; group < end; ++group) {
    const unsigned char* const codes = panel + Weights::kLayout.codes_offset(group);
#pragma GCC unroll 8
    for (size_t step = 0; step < kGroupSteps; ++step, out += 2 * Dots::kUnpackedBytes) {
      Dots::store_weights(out, read_weights<Dots, false>(Weights{}, codes, step, table));
      const auto high = read_weights<Dots, true>(Weights{}, codes, step, table);
      Dots::store_weights(out + Dots::kUnpackedBytes, high);
    }
  }
}

// The products of four inputs at `four` with each panel's weights, added to *sum_of(panel). One
// panel's read the inputs out of memory, where there is such an instruction: an operation less to
// start. Two panels share a register: a load less.
template <class Dots, size_t kPanels, class SumOf>
[[gnu::always_inline]] inline void add_products(
    const typename Dots::Weights (&weights)[kPanels], const unsigned char* four, const SumOf& sum_of
) {
  if constexpr (kPanels == 1 && kReadsInputs<Dots>) {
    *sum_of(0) = Dots::dot_at(weights[0], four, *sum_of(0));
  } else {
    const auto inputs = Dots::broadcast_inputs(four);
#pragma GCC unroll 2
    for (size_t panel = 0; panel < kPanels; ++panel) {
      *sum_of(panel) = Dots::dot(weights[panel], inputs, *sum_of(panel));
    }
  }
}

}  // namespace
}  // namespace millrace
