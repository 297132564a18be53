#include "text/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "text/jinja/unicode.h"

namespace millrace::jinja {
namespace {

bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

// Jinja counts \n, \r\n and \r as one line end each, and drops the last one of a template.
std::string normalize_newlines(std::string_view source) {
  std::string normal;
  normal.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      normal += source[i];
      continue;
    }
    normal += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!normal.empty() && normal.back() == '\n') normal.pop_back();
  return normal;
}

size_t skip_spaces(std::string_view text, size_t at) {
  while (at < text.size()) {
    const size_t end = code_point_end(text, at);
    if (!is_space(decode_utf8(text.substr(at, end - at)))) break;
    at = end;
  }
  return at;
}

std::string_view strip_right(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && is_continuation(text[begin])) --begin;
    if (!is_space(decode_utf8(text.substr(begin, end - begin)))) break;
    end = begin;
  }
  return text.substr(0, end);
}

// The length of `digits (_? digits)*` at the start, where `is_one` tells what a digit is.
template <class IsOne>
size_t digits_length(std::string_view text, IsOne is_one) {
  size_t at = 0;
  while (at < text.size()) {
    const bool has_underscore = text[at] == '_' && at + 1 < text.size();
    const size_t digit = at + (has_underscore ? 1 : 0);
    if (!is_one(text[digit])) break;
    at = digit + 1;
  }
  return at;
}

// The length of a float at the start, or 0.
size_t float_length(std::string_view text) {
  if (text.empty() || !is_ascii_digit(text[0])) return 0;
  size_t at = digits_length(text, is_ascii_digit);
  bool is_float = false;
  if (at + 1 < text.size() && text[at] == '.' && is_ascii_digit(text[at + 1])) {
    at += 1 + digits_length(text.substr(at + 1), is_ascii_digit);
    is_float = true;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    size_t exponent = at + 1;
    if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
    if (exponent < text.size() && is_ascii_digit(text[exponent])) {
      at = exponent + digits_length(text.substr(exponent), is_ascii_digit);
      is_float = true;
    }
  }
  return is_float ? at : 0;
}

size_t integer_length(std::string_view text) {
  if (text.empty() || !is_ascii_digit(text[0])) return 0;
  if (text[0] != '0') return digits_length(text, is_ascii_digit);
  const char base = text.size() > 1 ? static_cast<char>(text[1] | 0x20) : ' ';
  size_t length = 0;
  const std::string_view digits = text.substr(std::min<size_t>(2, text.size()));
  if (base == 'b') length = digits_length(digits, [](char c) { return c == '0' || c == '1'; });
  if (base == 'o') length = digits_length(digits, [](char c) { return c >= '0' && c <= '7'; });
  if (base == 'x') {
    length = digits_length(digits, [](char c) {
      const char lower = static_cast<char>(c | 0x20);
      return is_ascii_digit(c) || (lower >= 'a' && lower <= 'f');
    });
  }
  if (length > 0) return 2 + length;
  return digits_length(text, [](char c) { return c == '0'; });
}

// The length of a string literal with its quotes at the start, or 0.
size_t string_length(std::string_view text) {
  if (text.empty() || (text[0] != '\'' && text[0] != '"')) return 0;
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == text[0]) return i + 1;
    if (text[i] == '\\') ++i;
  }
  return 0;
}

size_t name_length(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = code_point_end(text, at);
    if (!is_identifier_part(decode_utf8(text.substr(at, end - at)))) break;
    at = end;
  }
  return at;
}

size_t operator_length(std::string_view text) {
  static constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
  for (const std::string_view op : kTwo) {
    if (text.substr(0, 2) == op) return 2;
  }
  return std::string_view("+-/*%~[](){}><=.:|,;").find(text[0]) != std::string_view::npos ? 1 : 0;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : storage_(std::move(source)), source_(storage_) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) {
      const Result<void> lexed = root();
      if (!lexed) return lexed.error();
    }
    emit(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return source_.substr(at_); }
  bool starts_with(std::string_view word) const { return rest().substr(0, word.size()) == word; }
  Error fail(std::string message) const { return template_error(std::move(message), line_); }

  void emit(TokenKind kind, std::string_view text) {
    tokens_.push_back({kind, std::string(text), line_});
  }

  // Moves on and counts lines.
  void advance_to(size_t end) {
    const auto begin = source_.begin() + static_cast<std::ptrdiff_t>(at_);
    const auto stop = source_.begin() + static_cast<std::ptrdiff_t>(end);
    line_ += static_cast<int>(std::count(begin, stop, '\n'));
    if (end > at_) is_line_start_ = source_[end - 1] == '\n';
    at_ = end;
  }

  void emit_data(std::string_view text) {
    if (!text.empty()) emit(TokenKind::kData, text);
  }

  // What is left of the data before a tag. `sign` is the character after the tag's opening.
  std::string_view strip_before_tag(std::string_view data, char sign, bool is_print) const {
    if (sign == '-') return strip_right(data);
    if (sign == '+' || is_print) return data;
    const size_t newline = data.rfind('\n');
    const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
    if (line_begin == 0 && !is_line_start_) return data;
    return skip_spaces(data, line_begin) == data.size() ? data.substr(0, line_begin) : data;
  }

  char sign_at(size_t at) const {
    const char c = at < source_.size() ? source_[at] : ' ';
    return c == '-' || c == '+' ? c : ' ';
  }

  // Data up to the next tag, and the tag.
  Result<void> root() {
    size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= source_.size()) {
        emit_data(rest());
        advance_to(source_.size());
        return {};
      }
      const char c = source_[tag + 1];
      if (c == '%' || c == '{' || c == '#') break;
      ++tag;
    }
    const char kind = source_[tag + 1];
    const char sign = sign_at(tag + 2);
    emit_data(strip_before_tag(source_.substr(at_, tag - at_), sign, kind == '{'));
    const size_t raw_end = kind == '%' ? raw_begin_end(tag) : 0;
    if (raw_end != 0) {
      advance_to(raw_end);
      return raw();
    }
    advance_to(tag + (sign == ' ' ? 2 : 3));
    if (kind == '#') return comment();
    emit(kind == '%' ? TokenKind::kBlockBegin : TokenKind::kPrintBegin, "");
    return expression(kind == '%');
  }

  // The end of `{% raw %}` if that is what starts at `tag`, else 0.
  size_t raw_begin_end(size_t tag) const {
    size_t at = tag + 2 + (sign_at(tag + 2) == ' ' ? 0 : 1);
    at = skip_spaces(source_, at);
    if (source_.substr(at, 3) != "raw") return 0;
    at = skip_spaces(source_, at + 3);
    if (source_.substr(at, 2) == "%}") return at + 2;
    return source_.substr(at, 3) == "-%}" ? skip_spaces(source_, at + 3) : 0;
  }

  // The end of a closing tag like `-%}` at `at`, with the white space that it takes; else 0.
  size_t closing_end(size_t at, std::string_view close, bool trims_newline) const {
    if (source_.substr(at, 1) == "-" && source_.substr(at + 1, 2) == close) {
      return skip_spaces(source_, at + 3);
    }
    if (trims_newline && source_.substr(at, 1) == "+" && source_.substr(at + 1, 2) == close) {
      return at + 3;
    }
    if (source_.substr(at, 2) != close) return 0;
    const bool has_newline = trims_newline && at + 2 < source_.size() && source_[at + 2] == '\n';
    return at + (has_newline ? 3 : 2);
  }

  Result<void> raw() {
    for (size_t tag = source_.find("{%", at_); tag != std::string_view::npos;
         tag = source_.find("{%", tag + 1)) {
      const char sign = sign_at(tag + 2);
      size_t at = skip_spaces(source_, tag + (sign == ' ' ? 2 : 3));
      if (source_.substr(at, 6) != "endraw") continue;
      at = skip_spaces(source_, at + 6);
      const size_t end = at < source_.size() ? closing_end(at, "%}", true) : 0;
      if (end == 0) continue;
      emit_data(strip_before_tag(source_.substr(at_, tag - at_), sign, false));
      advance_to(end);
      return {};
    }
    return fail("Missing end of raw directive");
  }

  Result<void> comment() {
    const size_t close = source_.find("#}", at_);
    if (close == std::string_view::npos) return fail("Missing end of comment tag");
    const bool has_sign = close > at_ && sign_at(close - 1) != ' ';
    advance_to(closing_end(has_sign ? close - 1 : close, "#}", true));
    return {};
  }

  // The tokens of one tag up to and with its end. A template that ends first is the parser's error.
  Result<void> expression(bool is_block) {
    open_brackets_.clear();
    while (at_ < source_.size()) {
      const size_t end =
          open_brackets_.empty() ? closing_end(at_, is_block ? "%}" : "}}", is_block) : 0;
      if (end != 0) {
        emit(is_block ? TokenKind::kBlockEnd : TokenKind::kPrintEnd, "");
        advance_to(end);
        return {};
      }
      const size_t word = skip_spaces(source_, at_);
      if (word != at_) {
        advance_to(word);
        continue;
      }
      const Result<void> lexed = one_token();
      if (!lexed) return lexed;
    }
    return {};
  }

  void emit_and_advance(TokenKind kind, size_t length) {
    emit(kind, rest().substr(0, length));
    advance_to(at_ + length);
  }

  void emit_number(TokenKind kind, size_t length) {
    emit_and_advance(kind, length);
    std::string& text = tokens_.back().text;
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
  }

  Result<void> one_token() {
    const bool is_after_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (const size_t length = is_after_dot ? 0 : float_length(rest())) {
      emit_number(TokenKind::kFloat, length);
    } else if (const size_t integer = integer_length(rest())) {
      emit_number(TokenKind::kInteger, integer);
    } else if (const size_t name = name_length(rest())) {
      const size_t first = code_point_end(source_, at_);
      if (!is_identifier_start(decode_utf8(source_.substr(at_, first - at_)))) {
        return fail("Invalid character in identifier");
      }
      emit_and_advance(TokenKind::kName, name);
    } else if (const size_t string = string_length(rest())) {
      Result<std::string> value = decode_string_literal(rest().substr(1, string - 2));
      if (!value) return fail(value.error().message);
      emit(TokenKind::kString, *value);
      advance_to(at_ + string);
    } else if (const size_t op = operator_length(rest())) {
      const Result<void> balanced = balance(source_[at_]);
      if (!balanced) return balanced;
      emit_and_advance(TokenKind::kOperator, op);
    } else {
      const size_t end = code_point_end(source_, at_);
      return fail(fmt::format("unexpected char '{}' at {}", source_.substr(at_, end - at_), at_));
    }
    return {};
  }

  Result<void> balance(char c) {
    if (c == '(') open_brackets_ += ')';
    if (c == '[') open_brackets_ += ']';
    if (c == '{') open_brackets_ += '}';
    if (c != ')' && c != ']' && c != '}') return {};
    if (open_brackets_.empty()) return fail(fmt::format("unexpected '{}'", c));
    const char expected = open_brackets_.back();
    open_brackets_.pop_back();
    if (expected == c) return {};
    return fail(fmt::format("unexpected '{}', expected '{}'", c, expected));
  }

  std::string storage_;
  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  bool is_line_start_ = true;  // the last thing that was read ended with a line end
  std::string open_brackets_;
  std::vector<Token> tokens_;
};

// The value of exactly `num_digits` hexadecimal digits.
std::optional<char32_t> parse_hex(std::string_view digits, size_t num_digits) {
  if (digits.size() < num_digits) return std::nullopt;
  char32_t value = 0;
  for (size_t i = 0; i < num_digits; ++i) {
    const char c = digits[i];
    const char lower = static_cast<char>(c | 0x20);
    if (!is_ascii_digit(c) && (lower < 'a' || lower > 'f')) return std::nullopt;
    value = value * 16 + static_cast<char32_t>(is_ascii_digit(c) ? c - '0' : lower - 'a' + 10);
  }
  return value;
}

// Python makes a code point above 127 into an escape of its own before it decodes escapes, so a
// backslash in front of one stands for itself and the code point's escape becomes visible text.
std::string visible_escape(char32_t c) {
  const auto value = static_cast<uint32_t>(c);
  if (value <= 0xff) return fmt::format("\\x{:02x}", value);
  if (value <= 0xffff) return fmt::format("\\u{:04x}", value);
  return fmt::format("\\U{:08x}", value);
}

// Decodes the escape after a backslash at the start of `text` onto `out`; returns its length.
Result<size_t> decode_escape(std::string_view text, std::string& out) {
  static constexpr std::string_view kLetters = "\\'\"abfnrtv";
  static constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  const char c = text[0];
  if (c == '\n') return size_t{1};
  const size_t letter = kLetters.find(c);
  if (letter != std::string_view::npos) {
    out += kMeanings[letter];
    return size_t{1};
  }
  if (c >= '0' && c <= '7') {
    size_t length = 0;
    char32_t value = 0;
    for (; length < 3 && length < text.size() && text[length] >= '0' && text[length] <= '7';
         ++length) {
      value = value * 8 + static_cast<char32_t>(text[length] - '0');
    }
    out += to_utf8(value);
    return length;
  }
  if (c == 'x' || c == 'u' || c == 'U') {
    const size_t num_digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    const std::optional<char32_t> value = parse_hex(text.substr(1), num_digits);
    const bool is_surrogate = value && *value >= 0xd800 && *value <= 0xdfff;
    if (!value || *value > 0x10ffff || is_surrogate) {
      return invalid_argument(fmt::format("truncated \\{} escape or not a code point", c));
    }
    out += to_utf8(*value);
    return 1 + num_digits;
  }
  if (c == 'N') return unsupported("\\N{...} escapes are not supported in template strings");
  out += '\\';
  if (static_cast<unsigned char>(c) < 0x80) {
    out += c;
    return size_t{1};
  }
  const size_t length = code_point_end(text, 0);
  out += visible_escape(decode_utf8(text.substr(0, length))).substr(1);
  return length;
}

}  // namespace

Error template_error(std::string message, int line) {
  return invalid_argument(std::move(message), fmt::format("chat template, line {}", line));
}

Result<std::vector<Token>> tokenize(std::string_view source) {
  return Lexer(normalize_newlines(source)).run();
}

Result<std::string> decode_string_literal(std::string_view body) {
  std::string out;
  for (size_t i = 0; i < body.size();) {
    if (body[i] != '\\' || i + 1 == body.size()) {
      out += body[i++];
      continue;
    }
    const Result<size_t> length = decode_escape(body.substr(i + 1), out);
    if (!length) return length.error();
    i += 1 + *length;
  }
  return out;
}

}  // namespace millrace::jinja
