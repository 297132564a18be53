// Points on disk: JSONL, one line for the point, then one for each request. Appending is how
// results so far are kept; a file that was cut short reads up to its last whole point.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "results/point_record.h"

namespace millrace::bench {

// The lines of one point.
std::string to_jsonl(const PointRecord& record);

// Adds a point to the file, which is made if need be. On return it is on the disk.
Result<void> append_record(const std::string& path, const PointRecord& record);

// The errors name the line. kNotFound: no such file.
Result<std::vector<PointRecord>> read_records(const std::string& path);
Result<std::vector<PointRecord>> parse_records(std::string_view jsonl);

}  // namespace millrace::bench
