// JSON from outside, with limits: Boost.JSON values, parsed so that an error says where.
#pragma once

#include <boost/json.hpp>
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

// Reads and parses a file; the error's `where` is the path.
Result<json::value> read_json_file(const std::string& path, const JsonLimits& limits = {});

}  // namespace millrace
