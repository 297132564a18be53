// When enough has been measured.
#pragma once

#include <functional>
#include <vector>

#include "results/point_record.h"

namespace millrace::bench {

// True once the intervals of the mean TTFT, the mean gap between tokens and the output throughput
// of the requests so far are all within `percent` of their values, and there are at least 30.
std::function<bool(const std::vector<RequestRecord>& finished)> precision_test(
    const PointPlan& plan, double percent
);

}  // namespace millrace::bench
