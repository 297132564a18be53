// What a tokenizer file can search a text for: a literal string, or a regular expression.
// Immutable; callable from any thread.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/byte_range.h"
#include "text/pretokenizer_patterns.h"
#include "text/regex.h"

namespace millrace {

class TextPattern {
 public:
  // Refuses the empty string: Oniguruma would match it between any two characters.
  static Result<TextPattern> literal(std::string text);
  // Takes the hand-written matcher where `pattern` is one of the known ones.
  static Result<TextPattern> regex(std::string_view pattern);

  explicit TextPattern(KnownPattern pattern) : matcher_(pattern) {}

  // Non-overlapping matches in text[range], from left to right; positions are those of `text`.
  void find_all(std::string_view text, ByteRange range, std::vector<ByteRange>& matches) const;

  // The string, where the pattern is one.
  const std::string* literal_text() const { return std::get_if<std::string>(&matcher_); }
  const KnownPattern* known() const { return std::get_if<KnownPattern>(&matcher_); }

  // `text` with `content` in the place of each match.
  std::string replace_all(std::string_view text, std::string_view content) const;

 private:
  explicit TextPattern(std::string literal) : matcher_(std::move(literal)) {}
  explicit TextPattern(Regex regex) : matcher_(std::move(regex)) {}

  std::variant<std::string, Regex, KnownPattern> matcher_;
};

}  // namespace millrace
