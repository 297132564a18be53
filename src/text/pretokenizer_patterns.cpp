// One scanner for a family of patterns that differ in four properties.
#include "text/pretokenizer_patterns.h"

#include <array>

#include "text/unicode.h"

namespace millrace {
namespace {

constexpr uint8_t kLetter = CodePointClass::kLetter;
constexpr uint8_t kNumber = CodePointClass::kNumber;
constexpr uint8_t kSpace = CodePointClass::kSpace;
constexpr uint8_t kMark = CodePointClass::kMark;

// What distinguishes the patterns.
struct PatternTraits {
  bool is_gpt2 = false;       // a space, and nothing else, may lead a word, number or symbols
  uint8_t word = kLetter;     // classes that words consist of
  size_t num_digits_max = 1;  // digits that stay together
};

template <PatternTraits kTraits>
class Scanner {
 public:
  Scanner(std::string_view text, ByteRange range)
      : text_(text), end_(range.end), pos_(range.begin), classes_(CodePointClasses::table()) {}

  bool at_end() const { return pos_ == end_; }

  // The end of the match that begins here.
  size_t advance() {
    pos_ = kTraits.is_gpt2 ? gpt2_match_end() : modern_match_end();
    return pos_;
  }

 private:
  struct Here {
    uint8_t classes;
    uint8_t num_bytes;
  };

  Here look(size_t pos) const {
    const auto byte = static_cast<uint8_t>(text_[pos]);
    if (byte < 0x80) return {classes_.of_ascii(byte), 1};
    const CodePoint here = decode_code_point(text_, pos);
    return {classes_.of(here.value), static_cast<uint8_t>(here.num_bytes)};
  }

  static bool is_word(uint8_t classes) { return (classes & kTraits.word) != 0; }
  static bool is_number(uint8_t classes) { return (classes & kNumber) != 0; }
  static bool is_symbol(uint8_t classes) {
    return (classes & (kTraits.word | kNumber | kSpace)) == 0;
  }
  bool is_line_break(size_t pos) const { return text_[pos] == '\r' || text_[pos] == '\n'; }

  template <class Predicate>
  size_t run_end(size_t pos, Predicate belongs) const {
    while (pos < end_) {
      const Here here = look(pos);
      if (!belongs(here.classes)) break;
      pos += here.num_bytes;
    }
    return pos;
  }

  // 's 't 're 've 'm 'll 'd; 0 where none of them stands at `pos`.
  size_t contraction_size(size_t pos) const {
    if (text_[pos] != '\'' || pos + 1 == end_) return 0;
    const std::string_view rest = text_.substr(pos + 1, end_ - pos - 1);
    const char first = fold(rest[0]);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    if (rest.size() >= 2) {
      const char second = fold(rest[1]);
      if ((first == 'r' || first == 'v') && second == 'e') return 3;
      if (first == 'l' && second == 'l') return 3;
      // U+017F, the long s, is a case of "s".
      if (!kTraits.is_gpt2 && rest.starts_with("\xC5\xBF")) return 3;
    }
    return 0;
  }

  static char fold(char c) {
    return !kTraits.is_gpt2 && c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  }

  // '(contraction)| ?L+| ?N+| ?[^\sLN]+|\s+(?!\S)|\s+
  size_t gpt2_match_end() const {
    if (const size_t size = contraction_size(pos_); size != 0) return pos_ + size;
    const bool has_space = text_[pos_] == ' ' && pos_ + 1 < end_;
    const size_t start = pos_ + (has_space ? 1 : 0);
    const Here here = look(start);
    const size_t next = start + here.num_bytes;
    if (is_word(here.classes)) return run_end(next, is_word);
    if (is_number(here.classes)) return run_end(next, is_number);
    if (is_symbol(here.classes)) return run_end(next, is_symbol);
    return space_match_end();
  }

  // (any-case contraction)|[^\r\nLN]?L+|N{1,max}| ?[^\sLN]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  size_t modern_match_end() const {
    if (const size_t size = contraction_size(pos_); size != 0) return pos_ + size;
    const Here here = look(pos_);
    const size_t next = pos_ + here.num_bytes;
    if (is_word(here.classes)) return run_end(next, is_word);
    if (is_number(here.classes)) return digits_end(next);
    if (next < end_) {
      const Here second = look(next);
      if (is_word(second.classes) && !is_line_break(pos_)) {
        return run_end(next + second.num_bytes, is_word);
      }
      if (text_[pos_] == ' ' && is_symbol(second.classes)) return symbols_end(next);
    }
    if (is_symbol(here.classes)) return symbols_end(next);
    return space_or_lines_end();
  }

  size_t digits_end(size_t pos) const {
    for (size_t n = 1; n < kTraits.num_digits_max && pos < end_; ++n) {
      const Here here = look(pos);
      if (!is_number(here.classes)) break;
      pos += here.num_bytes;
    }
    return pos;
  }

  size_t symbols_end(size_t pos) const {
    pos = run_end(pos, is_symbol);
    while (pos < end_ && is_line_break(pos)) ++pos;
    return pos;
  }

  static bool is_space(uint8_t classes) { return (classes & kSpace) != 0; }

  // \s*[\r\n]+ takes a run of spaces up to its last line break.
  size_t space_or_lines_end() const {
    for (size_t pos = run_end(pos_, is_space); pos > pos_; --pos) {
      if (is_line_break(pos - 1)) return pos;
    }
    return space_match_end();
  }

  // \s+(?!\S) leaves the last space of a run to the word behind it; \s+ takes a lone one.
  size_t space_match_end() const {
    const size_t run = run_end(pos_, is_space);
    if (run == end_) return run;
    const size_t without_last = run - previous_code_point_size(text_, run);
    return without_last > pos_ ? without_last : run;
  }

  std::string_view text_;
  size_t end_;
  size_t pos_;
  const CodePointClasses& classes_;
};

template <PatternTraits kTraits>
void split(std::string_view text, ByteRange range, std::vector<ByteRange>& pieces) {
  Scanner<kTraits> scanner(text, range);
  size_t begin = range.begin;
  while (!scanner.at_end()) {
    const size_t end = scanner.advance();
    pieces.push_back({begin, end});
    begin = end;
  }
}

constexpr std::array kKnownPatterns = {
    KnownPattern::kGpt2, KnownPattern::kLlama3, KnownPattern::kQwen2, KnownPattern::kQwen35};

}  // namespace

std::string_view pattern_text(KnownPattern pattern) {
  switch (pattern) {
    case KnownPattern::kGpt2:
      return R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
    case KnownPattern::kLlama3:
      return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
             R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    case KnownPattern::kQwen2:
      return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
             R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    case KnownPattern::kQwen35:
      return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
             R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  }
  return {};
}

std::optional<KnownPattern> find_known_pattern(std::string_view pattern) {
  for (const KnownPattern known : kKnownPatterns) {
    if (pattern == pattern_text(known)) return known;
  }
  return std::nullopt;
}

void split_by_known_pattern(
    KnownPattern pattern, std::string_view text, ByteRange range, std::vector<ByteRange>& pieces
) {
  switch (pattern) {
    case KnownPattern::kGpt2:
      return split<PatternTraits{.is_gpt2 = true}>(text, range, pieces);
    case KnownPattern::kLlama3:
      return split<PatternTraits{.num_digits_max = 3}>(text, range, pieces);
    case KnownPattern::kQwen2:
      return split<PatternTraits{}>(text, range, pieces);
    case KnownPattern::kQwen35:
      return split<PatternTraits{.word = kLetter | kMark}>(text, range, pieces);
  }
}

}  // namespace millrace
