// Files of one JSON object a line, from outside: an error says which line of which file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace millrace::bench {

inline constexpr size_t kDatasetFileSizeMax = size_t{2} << 30;
inline constexpr size_t kDatasetLinesMax = size_t{1} << 24;

// "FILE:LINE: message".
Error at_line(const std::string& path, size_t number, const Error& error);

// Calls `take` for each line of the file with its number, from 1, and without its end; lines of
// nothing but white space are passed over. Stops at the first error, which is given its place.
using TakeLine = std::function<Result<void>(std::string_view line, size_t number)>;
Result<void> for_each_line(const std::string& path, const TakeLine& take);

using TakeObject = std::function<Result<void>(const json::object& object, size_t number)>;
Result<void> for_each_json_line(const std::string& path, const TakeObject& take);

// A member that counts something: a whole number from 0 to `max`, written in any way. nullopt
// where it is not there or null. The error names the key.
Result<std::optional<int64_t>> read_count(
    const json::object& object, std::string_view key, int64_t max
);
// A finite number.
Result<std::optional<double>> read_number(const json::object& object, std::string_view key);
Result<std::optional<std::string>> read_text(const json::object& object, std::string_view key);

}  // namespace millrace::bench
