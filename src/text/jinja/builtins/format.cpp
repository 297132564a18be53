// Numbers and strings laid out by a format specification: what str.format and % share.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/convert.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace millrace::jinja {
namespace {

constexpr int kPrecisionMax = 400;  // beyond it a float has no more digits

std::string digits_in_base(uint64_t magnitude, char type) {
  switch (type) {
    case 'x':
      return fmt::format("{:x}", magnitude);
    case 'X':
      return fmt::format("{:X}", magnitude);
    case 'o':
      return fmt::format("{:o}", magnitude);
    case 'b':
      return fmt::format("{:b}", magnitude);
    default:
      return std::to_string(magnitude);
  }
}

void group_digits(std::string& digits, char separator, size_t group) {
  size_t end = std::min(digits.find('.'), digits.find('e'));
  end = std::min(end, digits.size());
  for (size_t at = end; at > group; at -= group) digits.insert(at - group, 1, separator);
}

std::string integer_digits(const FormatSpec& spec, uint64_t magnitude) {
  std::string digits = digits_in_base(magnitude, spec.type);
  const bool is_decimal = spec.type == 'd' || spec.type == 'n' || spec.type == '\0';
  if (spec.grouping != '\0') group_digits(digits, spec.grouping, is_decimal ? 3 : 4);
  if (spec.is_alternate && !is_decimal) digits.insert(0, fmt::format("0{}", spec.type));
  return digits;
}

std::string float_digits(const FormatSpec& spec, double magnitude) {
  const int precision = std::min(spec.precision.value_or(6), kPrecisionMax);
  const bool is_upper = spec.type == 'E' || spec.type == 'F' || spec.type == 'G';
  std::string digits;
  switch (spec.type) {
    case 'e':
    case 'E':
      digits = spec.is_alternate ? fmt::format("{:#.{}e}", magnitude, precision)
                                 : fmt::format("{:.{}e}", magnitude, precision);
      break;
    case 'f':
    case 'F':
    case '%':
      digits = spec.is_alternate ? fmt::format("{:#.{}f}", magnitude, precision)
                                 : fmt::format("{:.{}f}", magnitude, precision);
      break;
    case 'g':
    case 'G':
    case 'n':
      digits = spec.is_alternate ? fmt::format("{:#.{}g}", magnitude, precision)
                                 : fmt::format("{:.{}g}", magnitude, precision);
      break;
    default:
      digits =
          spec.precision ? fmt::format("{:.{}g}", magnitude, precision) : float_repr(magnitude);
      // Without a type letter there is always a digit after the point.
      if (spec.precision && digits.find_first_of(".en") == std::string::npos) digits += ".0";
      break;
  }
  if (is_upper) {
    std::transform(digits.begin(), digits.end(), digits.begin(), [](char c) {
      return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    });
  }
  if (spec.grouping != '\0') group_digits(digits, spec.grouping, 3);
  if (spec.type == '%') digits += '%';
  return digits;
}

std::string_view sign_of(const FormatSpec& spec, bool is_negative) {
  if (is_negative) return "-";
  if (spec.sign == '+') return "+";
  return spec.sign == ' ' ? " " : "";
}

}  // namespace

Text format_number(Run& run, const FormatSpec& spec, const Value& value, size_t& sign_size) {
  static constexpr std::string_view kIntegerTypes = "bdoxXn";
  static constexpr std::string_view kFloatTypes = "eEfFgGn%";
  const std::optional<int64_t> integer = value.as_int();
  std::string text;
  if (spec.type == 'c' && integer && *integer >= 0 && *integer <= 0x10ffff) {
    sign_size = 0;
    return Text(to_utf8(static_cast<char32_t>(*integer)));
  }
  const bool is_integer_type =
      spec.type == '\0' || kIntegerTypes.find(spec.type) != std::string_view::npos;
  if (value.large_int() != nullptr && is_integer_type) {
    run.fail_unsupported("an integer of more than 64 bits is not formatted");
    return {};
  }
  if (integer && is_integer_type) {
    if (spec.precision) run.fail("Precision not allowed in integer format specifier");
    const bool is_negative = *integer < 0;
    const auto magnitude =
        is_negative ? 0 - static_cast<uint64_t>(*integer) : static_cast<uint64_t>(*integer);
    text = std::string(sign_of(spec, is_negative)) + integer_digits(spec, magnitude);
    const bool has_prefix = spec.is_alternate && spec.type != 'd' && spec.type != '\0';
    sign_size = sign_of(spec, is_negative).size() + (has_prefix ? 2 : 0);
    return Text(std::move(text));
  }
  const bool is_float_type =
      spec.type == '\0' || kFloatTypes.find(spec.type) != std::string_view::npos;
  if (!value.is_number() || !is_float_type) {
    run.fail(
        fmt::format("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value))
    );
    return {};
  }
  const double number = value.as_double() * (spec.type == '%' ? 100 : 1);
  const bool is_negative = std::signbit(number) && !std::isnan(number);
  sign_size = sign_of(spec, is_negative).size();
  text = std::string(sign_of(spec, is_negative)) + float_digits(spec, std::fabs(number));
  return Text(std::move(text));
}

void append_padded(
    const FormatSpec& spec, const Text& body, size_t sign_size, char default_align, TextBuilder& out
) {
  const size_t size = body.num_code_points();
  const size_t width = spec.width.value_or(0);
  const size_t num_missing = width > size ? width - size : 0;
  const char align = spec.align != '\0' ? spec.align : default_align;
  size_t num_left = num_missing;
  if (align == '<') num_left = 0;
  if (align == '^') num_left = num_missing / 2;
  const Text fill(to_utf8(spec.fill));
  const size_t sign_end = align == '=' ? std::min(sign_size, body.size()) : 0;
  out.append(body, 0, sign_end);
  out.append_repeated(fill, num_left);
  out.append(body, sign_end, body.size());
  out.append_repeated(fill, num_missing - num_left);
}

}  // namespace millrace::jinja
