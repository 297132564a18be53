// A record's parts as JSON objects and back: each part's fields are listed once, for both ways.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "results/point_record.h"

namespace millrace::bench {

// The most tokens that a count of a record may be: far above any real one, and low enough that sums
// do not overflow.
inline constexpr int64_t kTokenCountMax = int64_t{1} << 40;

// Everything of a point but its requests. What is empty or none is left out.
json::object point_to_json(const PointRecord& record);
Result<PointRecord> point_from_json(const json::object& object);

// Adds the object as text. Chunks stand as `[[ns since the event before, num_tokens], ...]`, the
// first one's since the sending.
void append_request_json(std::string& out, const RequestRecord& request);
Result<RequestRecord> request_from_json(const json::object& object);

}  // namespace millrace::bench
