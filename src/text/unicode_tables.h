// Generated facts about code points, as Hugging Face `tokenizers` sees them; used by unicode.cpp.
#pragma once

#include <cstdint>
#include <span>

namespace millrace::unicode_tables {

// First and last code point of a range that no normalization form changes, composes or reorders.
struct InertRange {
  uint32_t first;
  uint32_t last;
};

// The lower case of `from`, where utf8proc knows another: one code point, or two.
struct LowercaseException {
  uint32_t from;
  uint32_t to_first;
  uint32_t to_second;  // 0 where there is none
};

// Ascending; (first code point of the run << 8) | CodePointClass bits. Ends with the last code
// point.
std::span<const uint32_t> class_runs();
std::span<const InertRange> inert_ranges();
std::span<const LowercaseException> lowercase_exceptions();

}  // namespace millrace::unicode_tables
