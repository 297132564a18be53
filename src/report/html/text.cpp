#include "report/html/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "base/check.h"

namespace millrace::bench {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Length of the well-formed UTF-8 sequence at the text's start (Unicode 15, table 3-7); 0: none.
size_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0};
  };
  const auto is_tail = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return is_tail(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool is_overlong = first == 0xE0 && byte(1) < 0xA0;
    const bool is_surrogate = first == 0xED && byte(1) > 0x9F;
    return is_tail(1) && is_tail(2) && !is_overlong && !is_surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool is_overlong = first == 0xF0 && byte(1) < 0x90;
    const bool is_beyond = first == 0xF4 && byte(1) > 0x8F;
    return is_tail(1) && is_tail(2) && is_tail(3) && !is_overlong && !is_beyond ? 4 : 0;
  }
  return 0;
}

// What stands for a character of JSON text that a page would misread; nullopt: itself.
std::optional<std::string_view> script_escape(std::string_view sequence, std::string_view rest) {
  if (sequence == "<") return "\\u003c";
  if (sequence == ">") return "\\u003e";
  if (sequence == "&") return "\\u0026";
  if (sequence == "\xE2\x80\xA8") return "\\u2028";
  if (sequence == "\xE2\x80\xA9") return "\\u2029";
  // JSON's own braces are followed by a quote or a brace that closes: these are within a string.
  if (sequence == "{" && (rest.starts_with('{') || rest.starts_with('%'))) return "\\u007b";
  return std::nullopt;
}

std::optional<std::string_view> html_escape(std::string_view sequence) {
  if (sequence == "&") return "&amp;";
  if (sequence == "<") return "&lt;";
  if (sequence == ">") return "&gt;";
  if (sequence == "\"") return "&quot;";
  if (sequence == "'") return "&#39;";
  const bool is_control = sequence.size() == 1 && (sequence[0] < ' ' || sequence[0] == '\x7F') &&
                          sequence[0] != '\n' && sequence[0] != '\t';
  if (is_control) return kReplacement;
  return std::nullopt;
}

// Copies `text`, character by character, as `escape(character, what follows)` says.
template <class Escape>
std::string escaped(std::string_view text, const Escape& escape) {
  std::string out;
  out.reserve(text.size() + text.size() / 16);
  while (!text.empty()) {
    const size_t length = sequence_length(text);
    const std::string_view sequence = text.substr(0, std::max<size_t>(length, 1));
    text.remove_prefix(sequence.size());
    out += length == 0 ? kReplacement : escape(sequence, text).value_or(sequence);
  }
  return out;
}

// Commas into an integer's digits.
std::string with_thousands(std::string_view digits) {
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    const bool is_after_digit = i > 0 && digits[i - 1] != '-';
    if (is_after_digit && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace

std::string html_escaped(std::string_view text) {
  return escaped(text, [](std::string_view sequence, std::string_view) {
    return html_escape(sequence);
  });
}

std::string script_json(const json::value& value) {
  return script_safe_json(to_json_text(value));
}

std::string script_safe_json(std::string_view json_text) {
  return escaped(json_text, script_escape);
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    const size_t num_bytes = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < num_bytes; ++k) {
      bits |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[i + k])) << (16 - 8 * k);
    }
    for (size_t k = 0; k < 4; ++k) {
      out += k <= num_bytes ? kDigits[(bits >> (18 - 6 * k)) & 63] : '=';
    }
  }
  return out;
}

std::string fill_template(
    std::string_view page, const std::vector<std::pair<std::string_view, std::string>>& values
) {
  std::string out;
  while (true) {
    const size_t begin = page.find("{{");
    const size_t end = begin == page.npos ? page.npos : page.find("}}", begin);
    if (end == page.npos) break;
    const std::string_view name = page.substr(begin + 2, end - begin - 2);
    const auto value = std::find_if(values.begin(), values.end(), [&](const auto& pair) {
      return pair.first == name;
    });
    CHECK(value != values.end(), fmt::format("the page has no value for {}", name));
    out += page.substr(0, begin);
    out += value->second;
    page.remove_prefix(end + 2);
  }
  out += page;
  return out;
}

std::string count_text(int64_t count) {
  return with_thousands(fmt::format("{}", count));
}

std::string figure_text(double value) {
  if (!std::isfinite(value)) return "∞";
  const double size = std::abs(value);
  if (size >= 99.95) {
    return with_thousands(fmt::format("{:.0f}", value));
  }
  if (size >= 9.995) return fmt::format("{:.1f}", value);
  if (size >= 0.1 || size == 0) return fmt::format("{:.2f}", value);
  return fmt::format("{:.2g}", value);
}

}  // namespace millrace::bench
