// Typed fields of a JSON object from outside. The first error is remembered and later reads give
// defaults, so that a reader is a list of fields with one check at its end.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "base/json.h"
#include "base/result.h"

namespace millrace {

struct IntRange {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
};

struct NumberRange {
  double min = std::numeric_limits<double>::lowest();
  double max = std::numeric_limits<double>::max();
};

class JsonFields {
 public:
  // `path` precedes a key in an error's `where`: "rope_scaling." or empty. Borrows `object`.
  explicit JsonFields(const json::object& object, std::string path = {})
      : object_(object), path_(std::move(path)) {}

  // The value of a key; null counts as absent.
  const json::value* find(std::string_view key) const;

  // none: absent, or refused.
  std::optional<int64_t> integer(std::string_view key, IntRange range);
  std::optional<double> number(std::string_view key, NumberRange range);
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::string> string(std::string_view key);
  const json::object* object(std::string_view key);

  // Absent is an error too. The value is meaningless once there is an error.
  int64_t required_integer(std::string_view key, IntRange range);

  // One id or a list of them, each within [0, vocab_size).
  std::vector<TokenId> token_ids(std::string_view key, int64_t vocab_size);
  std::vector<int64_t> integers(std::string_view key, IntRange range);

  // Reports something that the reader found wrong.
  void refuse(ErrorCode code, std::string_view key, std::string message);

  const std::optional<Error>& error() const { return error_; }

 private:
  const json::object& object_;
  std::string path_;
  std::optional<Error> error_;
};

}  // namespace millrace
