// A flag for each field by which a request says how to generate.
#pragma once

#include <span>
#include <string_view>

#include "base/json.h"
#include "command_line.h"

namespace millrace {

// Each flag that is given becomes a member of `fields`, as a request would state it. No flags for
// the fields `without`, spelled as in JSON.
void add_sampling_flags(
    CommandLine& line, json::object& fields, std::span<const std::string_view> without = {}
);

}  // namespace millrace
