#include "text/jinja/text.h"

#include <algorithm>
#include <utility>

#include "text/jinja/unicode.h"

namespace millrace::jinja {
namespace {

size_t count_code_points(std::string_view bytes) {
  size_t count = 0;
  for (const char c : bytes) count += is_continuation(c) ? 0 : 1;
  return count;
}

}  // namespace

Text::Text(std::string bytes, bool is_input)
    : bytes_(std::move(bytes)), num_code_points_(count_code_points(bytes_)) {
  if (is_input && !bytes_.empty()) input_ranges_.push_back({0, bytes_.size()});
}

bool Text::is_input_at(size_t byte) const {
  const auto after = std::upper_bound(
      input_ranges_.begin(),
      input_ranges_.end(),
      byte,
      [](size_t at, const ByteRange& range) { return at < range.end; }
  );
  return after != input_ranges_.end() && after->begin <= byte;
}

size_t Text::byte_of(size_t code_point) const {
  if (is_ascii()) return std::min(code_point, bytes_.size());
  size_t seen = 0;
  for (size_t i = 0; i < bytes_.size(); ++i) {
    if (is_continuation(bytes_[i])) continue;
    if (seen == code_point) return i;
    ++seen;
  }
  return bytes_.size();
}

size_t Text::code_point_of(size_t byte) const {
  if (is_ascii()) return byte;
  return count_code_points(view().substr(0, byte));
}

Text Text::slice(size_t begin, size_t end) const {
  TextBuilder builder(end - begin);
  builder.append(*this, begin, end);
  return builder.take();
}

bool TextBuilder::fits(size_t num_bytes) {
  if (overflowed_ || num_bytes > bytes_max_ - size()) overflowed_ = true;
  return !overflowed_;
}

void TextBuilder::mark(size_t begin, size_t end) {
  if (begin == end) return;
  std::vector<ByteRange>& ranges = text_.input_ranges_;
  if (!ranges.empty() && ranges.back().end == begin) {
    ranges.back().end = end;
  } else {
    ranges.push_back({begin, end});
  }
}

void TextBuilder::append(std::string_view bytes, bool is_input) {
  if (!fits(bytes.size())) return;
  const size_t begin = size();
  text_.bytes_.append(bytes);
  if (is_input) mark(begin, size());
}

void TextBuilder::append(const Text& text, size_t begin, size_t end) {
  if (!fits(end - begin)) return;
  const size_t offset = size();
  text_.bytes_.append(text.view().substr(begin, end - begin));
  for (const ByteRange& range : text.input_ranges()) {
    const size_t from = std::max(range.begin, begin);
    const size_t to = std::min(range.end, end);
    if (from < to) mark(offset + from - begin, offset + to - begin);
  }
}

void TextBuilder::append_code_point(char32_t code_point, bool is_input) {
  char bytes[4];
  append({bytes, encode_utf8(code_point, bytes)}, is_input);
}

void TextBuilder::append_repeated(const Text& text, size_t count) {
  if (text.empty()) return;
  for (size_t i = 0; i < count && !overflowed_; ++i) append(text);
}

Text TextBuilder::take() {
  text_.num_code_points_ = count_code_points(text_.view());
  return std::exchange(text_, {});
}

}  // namespace millrace::jinja
