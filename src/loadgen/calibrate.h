// What the client itself adds to the times it measures, found out against a server whose times are
// known.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>

#include "base/result.h"
#include "loadgen/target.h"
#include "results/point_record.h"

namespace millrace::bench {

// A load like the one that is or was measured.
struct CalibrationLoad {
  Protocol protocol = Protocol::kCompletions;
  std::optional<double> request_rate;  // none: closed loop
  int64_t concurrency = 1;             // closed loop
  Nanos ttft{20'000'000};              // as the measured server's, or about that
  Nanos itl{10'000'000};
  int64_t num_output_tokens = 16;
  Nanos duration{1'500'000'000};
  int32_t num_threads = 1;
};

// A load like a point's, but short, on a mock twice as fast as what was measured: a client that is
// not the limit then reaches more than it measured. At least 50 requests a second, at most 1024 at
// once. Nothing completed: none.
std::optional<CalibrationLoad> calibration_load_of(const PointRecord& record, Protocol protocol);

// Runs a mock server in this process and puts exactly this load on it. The figures are by how much
// measured times exceed (TTFT) or miss (ITL) those the mock was to keep.
Result<Calibration> calibrate(const CalibrationLoad& load, std::stop_token stop);

}  // namespace millrace::bench
