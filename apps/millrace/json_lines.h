// Commands that turn one JSON value a line into another.
#pragma once

#include <functional>

#include "base/json.h"
#include "base/result.h"

namespace millrace {

// Reads stdin to its end; prints what `convert` gives for each line. Stops at the first line that
// is no JSON or that `convert` refuses; the error names the line.
Result<void> for_each_json_line(
    const std::function<Result<json::value>(const json::value& line)>& convert
);

}  // namespace millrace
