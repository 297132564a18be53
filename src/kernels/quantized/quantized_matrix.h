// A weight matrix in up to 8 bits, in the layout that linear_quantized reads. Written once at load,
// by several threads on different panels; afterwards read-only and shared.
//
// int8, int4 and int6 are our own. Rows are rotated along their inputs (encode_rows.h) and then
// rounded in groups of 64 inputs. A group has a whole number of 1 to 255 as its scale, a row has a
// float: weight ~ code * group scale * row scale. Codes are -127 .. 127 with int8, -31 .. 31 with
// int6, which an int4 model's head has (docs/decisions/0037), and the 16 entries of kInt4Codebook
// with int4.
//
// A panel of 16 rows (inputs padded to groups with zeros) is read from its first byte to its last:
// for every four groups, of which the last ones may be fewer,
//
//          uint8 [4][16 rows]                   scales of the groups
//   int8   uint8 [groups * 16][16 rows][4]      code + 128 of four inputs in turn, as vpdpbusd
//                                               takes them
//   int4   uint8 [groups * 8][16 rows][4]       indices into the codebook: byte j has input j of
//                                               eight in its lower four bits, input j + 4 above
//   int6   for each group in turn, of codes + 32:
//          uint8 [8][16 rows][4]                their lower four bits, in the order of int4
//          uint8 [4][16 rows][4]                the upper two: bits 2 i and 2 i + 1 of byte j are
//                                               those of input 4 i + j of sixteen
//
// and after all of them
//
//          float [16]                           scales of the rows
//
// Codes are what other tools have made (AWQ, GPTQ, compressed-tensors, GGUF), as they made it: rows
// that are not rotated, numbers of 4, 5, 6 or 8 bits, and a scale and a base, the weight of code 0,
// of each 64, 32 or 16 inputs. weight = (code * scale + base) * row scale; scales and bases are
// kept to 11 bits, as a float16 has them, down to 2^-28 of the largest of their row. Some formats
// have no bases: code 2^(bits - 1) is zero. A group of 64 inputs, in one, two or four parts, is
//
//          float16 [parts][16 rows]             scales
//          float16 [parts][16 rows]             bases, if there are any
//   8 bits uint8 [16][16 rows][4]               codes of four inputs in turn
//   else   uint8 [8][16 rows][4]                their lower four bits, as those of int4; of codes
//                                               that are among kIq4Codes their indices
//   5 bits uint8 [2][16 rows][4]                the fifth bits: bit i of byte j is that of input
//                                               4 i + j of 32
//   6 bits uint8 [4][16 rows][4]                the upper two bits: bits 2 i and 2 i + 1 of byte j
//                                               are those of input 4 i + j of sixteen
//
// A second place to read from, all scales behind all codes, costs up to a third of the bandwidth.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/isa.h"
#include "kernels/panel_data.h"
#include "kernels/quantized/quantized_format.h"
#include "tensor/buffer.h"

namespace millrace {

struct ErrorFeedback;

// Of codes of other tools; none of our own formats.
constexpr std::optional<CodeFormat> code_format(QuantizedFormat format) {
  if (!are_codes(format)) return std::nullopt;
  return kCodeFormats[code_format_index(format)];
}

// "int8", "int4", "int6", "uint4", "uint5", "uint6", "uint8", "iq4".
[[nodiscard]] std::string_view name_of(QuantizedFormat format);
// Of what weights can be rounded to: int8 and int4.
[[nodiscard]] std::optional<QuantizedFormat> quantized_format_from_name(std::string_view name);

// Up to 16 rows as another tool has quantized them: weight = code * scale + base.
struct CodedRows {
  std::span<const uint8_t> codes;  // [rows, columns], of as many bits as the format has at most
  std::span<const float> scales;   // [rows, ceil(columns / inputs that share one)]
  std::span<const float> bases;    // the same; not looked at where the format has none
};

class QuantizedMatrix {
 public:
  static constexpr size_t kPanelRows = 16;
  static constexpr size_t kGroup = 64;  // inputs whose codes lie together

  QuantizedMatrix() = default;

  // All bytes zero. kResourceExhausted when there is no such memory.
  static Result<QuantizedMatrix> allocate(
      QuantizedFormat format, size_t num_rows, size_t num_columns
  );

  // What allocate() takes; nullopt when that does not fit a size_t.
  static std::optional<size_t> num_bytes(
      QuantizedFormat format, size_t num_rows, size_t num_columns
  );

  QuantizedFormat format() const { return format_; }
  size_t num_rows() const { return num_rows_; }
  size_t num_columns() const { return num_columns_; }
  size_t num_panels() const;
  size_t num_groups() const;
  size_t num_bytes() const { return buffer_.num_bytes(); }
  size_t panel_bytes() const;  // from one panel to the next
  const void* data() const { return buffer_.bytes().data(); }
  PanelData panels() const { return {data(), num_panels(), panel_bytes()}; }

  // One panel as it lies in memory: what a file keeps of it.
  std::span<const std::byte> panel(size_t index) const;
  std::span<std::byte> panel(size_t index);

  // Puts rows [index * 16, + n) in their place. REQUIRES: a format of codes; scales, and bases that
  // the format has, are finite.
  void pack_codes(size_t index, const CodedRows& rows);

  // Rotates and rounds rows [index * 16, + n) and puts them in their place. `rows`: [n,
  // num_columns], n <= 16; numbers that are not finite become finite ones. The same bits with every
  // `isa`. Threads may pack different panels at once. REQUIRES: a format of our own.
  void pack_panel(size_t index, std::span<const float> rows, Isa isa = best_isa());

  // The same with codes that make good each other's errors (error_feedback.h).
  void pack_panel(
      size_t index, std::span<const float> rows, const ErrorFeedback& feedback, Isa isa = best_isa()
  );

  // One row as it was rounded, and rotated back. `out`: [num_columns].
  void copy_row(size_t row, std::span<float> out) const;

 private:
  // Rotates rows to [16][num_groups * 64], not yet multiplied by the transform's factor.
  std::vector<float> rotate_rows(std::span<const float> rows, Isa isa) const;
  void round_rows(size_t index, std::span<const float> rotated, Isa isa);

  QuantizedFormat format_ = QuantizedFormat::kInt8;
  size_t num_rows_ = 0;
  size_t num_columns_ = 0;
  Buffer buffer_;
};

}  // namespace millrace
