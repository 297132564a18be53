// Typed fields of a JSON object of a request. The first error is remembered and later reads give
// defaults, so that a reader is a list of fields with one check at its end.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace millrace {

// The body of a request as a JSON object, with strict syntax and no key twice in one object.
Result<json::object> parse_body(std::string_view body);

struct Int32Range {
  int32_t min = std::numeric_limits<int32_t>::min();
  int32_t max = std::numeric_limits<int32_t>::max();
};

// In characters; a string has no more bytes than four times as many.
struct LengthRange {
  size_t min = 0;
  size_t max = 0;
};

class RequestFields {
 public:
  // `path` precedes a key in an error's `where`: "stream_options." or empty. Borrows `object`.
  explicit RequestFields(const json::object& object, std::string_view path = {})
      : object_(object), path_(path) {}

  // The value of a key; null counts as absent.
  const json::value* find(std::string_view key) const;
  std::string path_of(std::string_view key) const;

  // none: absent, or refused.
  std::optional<bool> boolean(std::string_view key);
  std::optional<int32_t> integer(std::string_view key, Int32Range range);
  std::optional<std::string> string(std::string_view key, LengthRange length);
  const json::object* object(std::string_view key);

  // Reports something that the reader found wrong; the first report counts.
  void refuse(Error error);
  Result<void> result() const;

 private:
  const json::object& object_;
  std::string_view path_;
  std::optional<Error> error_;
};

// Whether a value of a request is an integer within a range; the error names `path`.
Result<int32_t> read_integer(std::string_view path, const json::value& value, Int32Range range);
// Whether it is a string of a length; the error names `path`.
Result<void> check_string(std::string_view path, const json::value& value, LengthRange length);

}  // namespace millrace
