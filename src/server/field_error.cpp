#include "server/field_error.h"

#include <fmt/format.h>

#include "base/error_reason.h"

namespace millrace {
namespace {

constexpr size_t kQuotedBytesMax = 100;

// Paths can hold a client's keys.
constexpr size_t kPathBytesMax = 160;

std::string path_text(std::string_view path) {
  return std::string(cut_text(path, kPathBytesMax));
}

}  // namespace

std::string_view cut_text(std::string_view text, size_t num_bytes_max) {
  if (text.size() <= num_bytes_max) return text;
  size_t size = num_bytes_max;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  return text.substr(0, size);
}

std::string quoted(std::string_view text) {
  const std::string_view start = cut_text(text, kQuotedBytesMax);
  return fmt::format("'{}{}'", start, start.size() < text.size() ? "..." : "");
}

Error wrong_type(std::string_view path, std::string_view expected, const json::value& value) {
  const std::string where = path_text(path);
  return invalid_argument(
      fmt::format(
          "{} must be {}, got {}", where, expected, std::string_view(json::to_string(value.kind()))
      ),
      where,
      error_reason::kInvalidType
  );
}

Error wrong_value(std::string_view path, std::string_view expected) {
  const std::string where = path_text(path);
  return invalid_argument(
      fmt::format("{} must be {}", where, expected), where, error_reason::kInvalidValue
  );
}

Error missing_field(std::string_view path, std::string_view expected) {
  const std::string where = path_text(path);
  return invalid_argument(
      fmt::format("{} is missing: expected {}", where, expected), where, error_reason::kMissing
  );
}

Error unknown_field(std::string_view path) {
  const std::string where = path_text(path);
  return invalid_argument(
      fmt::format("there is no field {}", quoted(path)), where, error_reason::kUnknown
  );
}

Error unsupported_field(std::string_view path, std::string_view why) {
  const std::string where = path_text(path);
  Error error = unsupported(
      fmt::format("{} is not supported{}{}", where, why.empty() ? "" : ": ", why), where
  );
  error.reason = error_reason::kUnsupported;
  return error;
}

Error too_many_entries(std::string_view path, size_t size, size_t size_max) {
  const std::string where = path_text(path);
  return invalid_argument(
      fmt::format("{} may hold at most {} entries, got {}", where, size_max, size),
      where,
      error_reason::kArrayAboveMax
  );
}

}  // namespace millrace
