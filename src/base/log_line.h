// One event of a log as one line of text or of JSON. Pure; what a client wrote can neither end the
// line nor pass for another field of it, nor speak to a terminal.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace millrace {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

// What a field may hold; text is borrowed for the call.
class LogValue {
 public:
  using Variant = std::variant<std::string_view, int64_t, uint64_t, double, bool>;

  LogValue(const char* text) : variant_(std::string_view(text)) {}
  LogValue(std::string_view text) : variant_(text) {}
  LogValue(const std::string& text) : variant_(std::string_view(text)) {}
  LogValue(double number) : variant_(number) {}
  template <std::same_as<bool> T>
  LogValue(T truth) : variant_(truth) {}
  template <std::signed_integral T>
  LogValue(T number) : variant_(int64_t{number}) {}
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) LogValue(T number) : variant_(uint64_t{number}) {}

  const Variant& variant() const { return variant_; }

 private:
  Variant variant_;
};

// `key` is the program's own word, of [a-z0-9_], never a client's.
struct LogField {
  std::string_view key;
  LogValue value;
};

// A text as written is cut here, and ends in "..." then. The line as a whole has less than
// PIPE_BUF bytes, so that a pipe takes it whole or not at all.
constexpr size_t kLogTextBytesMax = 512;
constexpr size_t kLogLineBytesMax = 4095;

// What one line says besides its fields.
struct LogEvent {
  std::chrono::system_clock::time_point time;
  LogLevel level = LogLevel::kInfo;
  std::string_view message;
};

// The line with its '\n'. Time is ISO 8601 in UTC with milliseconds.
//
//   2026-03-01T12:00:00.250Z INFO request finished request_id=cmpl-1 status=200 user="a b"
//   {"time":"2026-03-01T12:00:00.250Z","level":"info","message":"request finished","status":200}
//
// Control characters, quotes and backslashes are escaped as in JSON, in both formats; so are line
// separators and marks that turn the direction of text. A byte that is no UTF-8 becomes \xNN in
// text and U+FFFD in JSON, which has no other word for it. A number that JSON cannot say is null.
// In text, a value is quoted unless it is one plain word, a message if it could hold a field.
// Fields that the line has no room for are left out, from the first on, and counted at its end.
std::string format_log_line(
    LogFormat format, const LogEvent& event, std::span<const LogField> fields
);

}  // namespace millrace
