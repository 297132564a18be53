// UTF-8, the classes of code points, and normalization, all as Hugging Face `tokenizers` sees them
// (its Unicode data differ from any one Unicode version, see tools/goldens/tokenizer_unicode.py).
// Pure functions over constant tables; callable from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_range.h"

namespace millrace {

// The encoding of U+FFFD, which stands for what is not UTF-8.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

struct CodePoint {
  char32_t value = 0;
  size_t num_bytes = 0;
};

// The code point at `text[pos]`. REQUIRES: `text` is valid UTF-8, `pos` begins a code point in it.
inline CodePoint decode_code_point(std::string_view text, size_t pos) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[pos + i]); };
  const auto tail = [&](size_t i) { return static_cast<char32_t>(byte(i) & 0x3F); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {static_cast<char32_t>((lead & 0x1F) << 6) | tail(1), 2};
  if (lead < 0xF0) {
    return {static_cast<char32_t>((lead & 0x0F) << 12) | (tail(1) << 6) | tail(2), 3};
  }
  const char32_t top = static_cast<char32_t>(lead & 0x07) << 18;
  return {top | (tail(1) << 12) | (tail(2) << 6) | tail(3), 4};
}

// The number of bytes of the code point before `text[pos]`. REQUIRES: valid UTF-8, pos > 0.
inline size_t previous_code_point_size(std::string_view text, size_t pos) {
  size_t size = 1;
  while ((static_cast<uint8_t>(text[pos - size]) & 0xC0) == 0x80) ++size;
  return size;
}

// REQUIRES: `code_point` is a Unicode scalar value.
void append_utf8(char32_t code_point, std::string& out);

// What stands at the start of `bytes`, by Unicode's table 3-7 of well-formed sequences.
struct Utf8Sequence {
  enum class Kind {
    kComplete,    // one code point
    kInvalid,     // a maximal ill-formed part, to be replaced by one U+FFFD
    kIncomplete,  // could become one code point with more bytes
  };
  Kind kind = Kind::kComplete;
  size_t num_bytes = 0;  // at least 1
};

// REQUIRES: `bytes` is not empty.
Utf8Sequence next_utf8_sequence(std::string_view bytes);

bool is_valid_utf8(std::string_view bytes);

// The number of code points of `text`. REQUIRES: `text` is valid UTF-8.
size_t num_code_points(std::string_view text);

// Appends `bytes`, each maximal ill-formed part replaced by one U+FFFD (as Rust's
// `String::from_utf8_lossy`), and returns how many bytes at the end it left out because they are an
// incomplete sequence. Where `at_end`, that sequence is replaced too and the answer is 0.
size_t append_utf8_lossy(std::string_view bytes, bool at_end, std::string& out);

// Bits of classes_of().
struct CodePointClass {
  static constexpr uint8_t kLetter = 1;        // \p{L}
  static constexpr uint8_t kNumber = 2;        // \p{N}
  static constexpr uint8_t kSpace = 4;         // \s, White_Space
  static constexpr uint8_t kMark = 8;          // \p{M}
  static constexpr uint8_t kNumeric = 16;      // Rust's char::is_numeric: \p{N} of another version
  static constexpr uint8_t kWord = 32;         // \w of Rust's regex crate
  static constexpr uint8_t kPunctuation = 64;  // what the Punctuation pre-tokenizer splits at
  static constexpr uint8_t kNfcSafe = 128;     // NFC leaves it alone, whatever stands before it
};

// The classes of all code points: a constant, in two stages of 256 entries.
class CodePointClasses {
 public:
  // The one table, built at its first use.
  static const CodePointClasses& table();

  // Class bits. REQUIRES: code_point <= 0x10FFFF.
  uint8_t of(char32_t code_point) const {
    return blocks_[block_of_[code_point >> 8]][code_point & 0xFF];
  }
  uint8_t of_ascii(uint8_t byte) const { return ascii_[byte]; }

 private:
  CodePointClasses();
  void add_block(size_t block, const std::array<uint8_t, 256>& entries);

  std::array<uint8_t, 128> ascii_;
  std::array<uint16_t, 0x1100> block_of_;
  std::vector<std::array<uint8_t, 256>> blocks_;
};

enum class NormalizationForm { kNfc, kNfd, kNfkc, kNfkd };

// A stretch of a text that a normalization form may change, with its replacement.
struct NormalizedSpan {
  ByteRange source;
  std::string text;
};

// The stretches of `text` to replace, in order, so that the whole has the form. Everything outside
// them stays as it is. REQUIRES: `text` is valid UTF-8.
std::vector<NormalizedSpan> normalize_spans(std::string_view text, NormalizationForm form);

// Appends the lower case of one code point (Unicode's full mapping, without context).
void append_lowercase(char32_t code_point, std::string& out);

}  // namespace millrace
