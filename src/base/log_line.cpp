#include "base/log_line.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

namespace millrace {
namespace {

// Unicode code point and its length in bytes; no bytes: the text does not begin with UTF-8.
struct CodePoint {
  uint32_t value = 0;
  size_t num_bytes = 0;
};

// RFC 3629: no overlong forms, no surrogates, nothing beyond U+10FFFF. REQUIRES: not empty.
CodePoint read_code_point(std::string_view text) {
  const auto byte_at = [&](size_t i) {
    return static_cast<uint32_t>(static_cast<uint8_t>(text[i]));
  };
  const uint32_t first = byte_at(0);
  if (first < 0x80) return {first, 1};
  const size_t num_bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < num_bytes) return {};
  uint32_t value = first & (0xFFU >> (num_bytes + 1));
  for (size_t i = 1; i < num_bytes; ++i) {
    if ((byte_at(i) & 0xC0) != 0x80) return {};
    value = (value << 6) | (byte_at(i) & 0x3F);
  }
  const bool is_overlong = (num_bytes == 3 && value < 0x800) || (num_bytes == 4 && value < 0x10000);
  const bool is_surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (is_overlong || is_surrogate || value > 0x10FFFF) return {};
  return {value, num_bytes};
}

// Characters that end a line, move a cursor, or make a line look like another one: C0 and C1
// controls, line and paragraph separator, marks and overrides of direction, the byte order mark.
bool is_harmful(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x61C || c == 0x200E || c == 0x200F ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

// How one character stands inside quotes: JSON's escapes, and \xNN where text has no character.
std::string_view escape(
    const CodePoint& c, std::string_view bytes, LogFormat format, char* buffer
) {
  constexpr size_t kEscapeBytesMax = 8;
  const auto print = [&](auto pattern, uint32_t value) {
    const auto end = fmt::format_to_n(buffer, kEscapeBytesMax, pattern, value);
    return std::string_view(buffer, end.size);
  };
  if (c.num_bytes == 0) {
    if (format == LogFormat::kJson) return "\\ufffd";
    return print(FMT_STRING("\\x{:02x}"), static_cast<uint8_t>(bytes[0]));
  }
  switch (c.value) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  if (is_harmful(c.value)) return print(FMT_STRING("\\u{:04x}"), c.value);
  return bytes.substr(0, c.num_bytes);
}

// Appends `text` escaped and cut.
void append_escaped(std::string& out, std::string_view text, LogFormat format) {
  char buffer[8];
  size_t num_bytes_written = 0;
  while (!text.empty()) {
    const CodePoint c = read_code_point(text);
    const std::string_view piece = escape(c, text, format, buffer);
    num_bytes_written += piece.size();
    if (num_bytes_written > kLogTextBytesMax) {
      out += "...";
      return;
    }
    out += piece;
    text.remove_prefix(std::max<size_t>(c.num_bytes, 1));
  }
}

// Whether a text can stand without quotes and be nothing but itself.
bool is_plain(std::string_view text, bool may_have_spaces) {
  if (text.empty()) return may_have_spaces;
  return std::all_of(text.begin(), text.end(), [&](char c) {
    if (c == ' ') return may_have_spaces;
    return c > ' ' && c < 0x7F && c != '"' && c != '=' && c != '\\';
  });
}

void append_quoted(std::string& out, std::string_view text, LogFormat format) {
  out += '"';
  append_escaped(out, text, format);
  out += '"';
}

void append_number(std::string& out, double number, LogFormat format) {
  if (!std::isfinite(number) && format == LogFormat::kJson) {
    out += "null";
  } else {
    fmt::format_to(std::back_inserter(out), "{}", number);
  }
}

void append_value(std::string& out, const LogValue& value, LogFormat format) {
  const auto& variant = value.variant();
  if (const auto* text = std::get_if<std::string_view>(&variant)) {
    if (format == LogFormat::kText && is_plain(*text, false)) {
      append_escaped(out, *text, format);
    } else {
      append_quoted(out, *text, format);
    }
  } else if (const auto* number = std::get_if<double>(&variant)) {
    append_number(out, *number, format);
  } else if (const auto* truth = std::get_if<bool>(&variant)) {
    out += *truth ? "true" : "false";
  } else if (const auto* whole = std::get_if<int64_t>(&variant)) {
    fmt::format_to(std::back_inserter(out), "{}", *whole);
  } else {
    fmt::format_to(std::back_inserter(out), "{}", std::get<uint64_t>(variant));
  }
}

void append_field(std::string& out, const LogField& field, LogFormat format) {
  if (format == LogFormat::kJson) {
    out += ',';
    append_quoted(out, field.key, format);
    out += ':';
  } else {
    out += ' ';
    append_escaped(out, field.key, format);
    out += '=';
  }
  append_value(out, field.value, format);
}

void append_time(std::string& out, std::chrono::system_clock::time_point time) {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(time);
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(now - day);
  fmt::format_to(
      std::back_inserter(out),
      "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
      static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()),
      static_cast<unsigned>(date.day()),
      clock.hours().count(),
      clock.minutes().count(),
      clock.seconds().count(),
      clock.subseconds().count()
  );
}

std::string_view name_of(LogLevel level, LogFormat format) {
  const bool is_json = format == LogFormat::kJson;
  switch (level) {
    case LogLevel::kDebug:
      return is_json ? "debug" : "DEBUG";
    case LogLevel::kInfo:
      return is_json ? "info" : "INFO";
    case LogLevel::kWarning:
      return is_json ? "warning" : "WARNING";
    case LogLevel::kError:
      break;
  }
  return is_json ? "error" : "ERROR";
}

void append_head(std::string& out, LogFormat format, const LogEvent& event) {
  if (format == LogFormat::kJson) {
    out += R"({"time":")";
    append_time(out, event.time);
    out += R"(","level":")";
    out += name_of(event.level, format);
    out += R"(","message":)";
    append_quoted(out, event.message, format);
    return;
  }
  append_time(out, event.time);
  out += ' ';
  out += name_of(event.level, format);
  out += ' ';
  if (is_plain(event.message, true)) {
    append_escaped(out, event.message, format);
  } else {
    append_quoted(out, event.message, format);
  }
}

}  // namespace

std::string format_log_line(
    LogFormat format, const LogEvent& event, std::span<const LogField> fields
) {
  // `,"num_fields_left_out":` with a number of twenty digits, "}" and "\n".
  constexpr size_t kRoomForEnd = 64;
  std::string out;
  out.reserve(256);
  append_head(out, format, event);
  for (size_t i = 0; i < fields.size(); ++i) {
    const size_t size_before = out.size();
    append_field(out, fields[i], format);
    if (out.size() + kRoomForEnd > kLogLineBytesMax) {
      out.resize(size_before);
      append_field(out, {"num_fields_left_out", fields.size() - i}, format);
      break;
    }
  }
  out += format == LogFormat::kJson ? "}\n" : "\n";
  return out;
}

}  // namespace millrace
