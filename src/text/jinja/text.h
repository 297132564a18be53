// A string of a template that remembers which of its bytes came from a request ("input") and which
// from the template. The tokenizer recognises special tokens only outside of input, so a message
// cannot forge the end of its own turn.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_range.h"

namespace millrace::jinja {

// Immutable. Positions are bytes unless a name says code points, which are what a template counts.
class Text {
 public:
  Text() = default;
  explicit Text(std::string bytes, bool is_input = false);

  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  // Sorted, not empty, not touching one another.
  const std::vector<ByteRange>& input_ranges() const { return input_ranges_; }
  bool is_input_at(size_t byte) const;

  size_t num_code_points() const { return num_code_points_; }
  // The byte where a code point starts, or size() for one past the last.
  size_t byte_of(size_t code_point) const;
  size_t code_point_of(size_t byte) const;

  // REQUIRES: begin <= end <= size().
  Text slice(size_t begin, size_t end) const;

  size_t heap_bytes() const {
    return bytes_.capacity() + input_ranges_.capacity() * sizeof(ByteRange);
  }

  // The bytes and the ranges, for the one who renders.
  std::string release_bytes() && { return std::move(bytes_); }
  std::vector<ByteRange> release_input_ranges() && { return std::move(input_ranges_); }

 private:
  friend class TextBuilder;
  bool is_ascii() const { return num_code_points_ == bytes_.size(); }

  std::string bytes_;
  std::vector<ByteRange> input_ranges_;
  size_t num_code_points_ = 0;
};

// Appends until `bytes_max`; what would not fit is dropped and `overflowed` from then on.
class TextBuilder {
 public:
  explicit TextBuilder(size_t bytes_max) : bytes_max_(bytes_max) {}

  void append(std::string_view bytes, bool is_input = false);
  void append(const Text& text) { append(text, 0, text.size()); }
  void append(const Text& text, size_t begin, size_t end);
  void append_code_point(char32_t code_point, bool is_input = false);
  void append_repeated(const Text& text, size_t count);

  size_t size() const { return text_.bytes_.size(); }
  bool overflowed() const { return overflowed_; }
  Text take();

 private:
  bool fits(size_t num_bytes);
  void mark(size_t begin, size_t end);

  size_t bytes_max_;
  bool overflowed_ = false;
  Text text_;
};

}  // namespace millrace::jinja
