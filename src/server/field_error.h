// What is wrong with a field of a request, in one wording: each error names the field's JSON path
// in its message and in `where`, and says in `reason` how it is wrong. What clients wrote is quoted
// at most in part.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace millrace {

// At most so many bytes of the text, ending with a whole character if it is UTF-8.
std::string_view cut_text(std::string_view text, size_t num_bytes_max);

// A client's own words for a message: in quotes, cut after 100 bytes.
std::string quoted(std::string_view text);

// `expected` completes "must be ...".
Error wrong_type(std::string_view path, std::string_view expected, const json::value& value);
Error wrong_value(std::string_view path, std::string_view expected);
Error missing_field(std::string_view path, std::string_view expected);
// A key that the API does not have.
Error unknown_field(std::string_view path);
// Known, and not served. `why` completes "... is not supported", or is empty.
Error unsupported_field(std::string_view path, std::string_view why = {});

// A list with a number of entries beyond `size_max`.
Error too_many_entries(std::string_view path, size_t size, size_t size_max);

}  // namespace millrace
