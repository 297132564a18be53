// JSON from outside, with limits: Boost.JSON values, parsed so that an error says where.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace {

namespace json = boost::json;

struct JsonLimits {
  size_t depth_max = 100;
  bool allow_duplicate_keys = false;
};

// Parses exactly one JSON value in strict RFC 8259 syntax. The error names the byte offset, or the
// key that stands twice in one object. Never throws.
Result<json::value> parse_json(std::string_view text, const JsonLimits& limits = {});

// The value in one line. Numbers are written as people write them, in as few digits as give the
// same number back; a number that JSON cannot say (an infinity, NaN) becomes null.
std::string to_json_text(const json::value& value);

// A float32 as the double with the same shortest decimal digits, so that 0.1f is written 0.1.
double to_json_number(float value);

// Reads and parses a file; the error's `where` is the path.
Result<json::value> read_json_file(const std::string& path, const JsonLimits& limits = {});

}  // namespace millrace
