#include "text/jinja/builtins/parse_number.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>

namespace millrace::jinja {
namespace {

std::string_view stripped(std::string_view text) {
  static constexpr std::string_view kSpaces(" \t\n\r\v\f\x1c\x1d\x1e\x1f", 10);
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

// Single underscores between digits are allowed; nullopt where another stands.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
      continue;
    }
    const bool is_between = i > 0 && i + 1 < text.size() && text[i - 1] != '_';
    if (!is_between) return std::nullopt;
  }
  return digits;
}

int64_t base_of_prefix(char letter) {
  switch (letter) {
    case 'x':
    case 'X':
      return 16;
    case 'o':
    case 'O':
      return 8;
    case 'b':
    case 'B':
      return 2;
    default:
      return 0;
  }
}

std::string lowercase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  return text;
}

}  // namespace

std::optional<ParsedInteger> parse_integer(std::string_view text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  std::string_view rest = stripped(text);
  const bool is_negative = !rest.empty() && rest[0] == '-';
  if (!rest.empty() && (rest[0] == '-' || rest[0] == '+')) rest.remove_prefix(1);
  const int64_t prefixed = rest.size() > 2 && rest[0] == '0' ? base_of_prefix(rest[1]) : 0;
  if (prefixed != 0 && (base == 0 || base == prefixed)) {
    rest.remove_prefix(rest[2] == '_' ? 3 : 2);
    base = prefixed;
  }
  const std::optional<std::string> digits = without_underscores(rest);
  if (!digits || digits->empty() || (*digits)[0] == '-' || (*digits)[0] == '+') return std::nullopt;
  const bool has_leading_zero =
      (*digits)[0] == '0' && digits->find_first_not_of('0') != std::string::npos;
  if (base == 0 && has_leading_zero) return std::nullopt;
  const std::string signed_digits = (is_negative ? "-" : "") + *digits;
  ParsedInteger result;
  const char* end = signed_digits.data() + signed_digits.size();
  const auto parsed = std::from_chars(
      signed_digits.data(), end, result.value, base == 0 ? 10 : static_cast<int>(base)
  );
  if (parsed.ptr != end) return std::nullopt;
  result.overflows = parsed.ec == std::errc::result_out_of_range;
  return result;
}

std::optional<double> parse_float(std::string_view text) {
  std::string_view rest = stripped(text);
  const bool is_negative = !rest.empty() && rest[0] == '-';
  if (!rest.empty() && (rest[0] == '-' || rest[0] == '+')) rest.remove_prefix(1);
  const double sign = is_negative ? -1 : 1;
  const std::string word = lowercase(std::string(rest.substr(0, 16)));
  if (word == "inf" || word == "infinity") return sign * std::numeric_limits<double>::infinity();
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  const std::optional<std::string> digits = without_underscores(rest);
  if (!digits || digits->empty()) return std::nullopt;
  const bool starts_well = (*digits)[0] == '.' || ((*digits)[0] >= '0' && (*digits)[0] <= '9');
  if (!starts_well) return std::nullopt;
  double value = 0;
  const char* end = digits->data() + digits->size();
  const auto parsed = std::from_chars(digits->data(), end, value);
  if (parsed.ptr != end) return std::nullopt;
  // Out of range: to_chars left `value` alone; strtod knows whether it is too large or too small.
  if (parsed.ec == std::errc::result_out_of_range) value = std::strtod(digits->c_str(), nullptr);
  return sign * value;
}

}  // namespace millrace::jinja
