// From what happened to figures: each tool's formulas over the same record, and the verdict.
#pragma once

#include <cstdint>
#include <vector>

#include "results/point_record.h"
#include "results/point_summary.h"

namespace millrace::bench {

struct SummaryOptions {
  Formulas formulas = Formulas::kMillrace;
  // Ranks beyond those that every summary has (0.1 1 5 10 25 50 75 90 95 99 99.9).
  std::vector<double> percentiles = {};
  // Block bootstrap, seeded, so that the same record gives the same intervals; 0: no intervals.
  int32_t num_resamples = 1000;
  double confidence = 0.95;
  // Only what lies in the window at full concurrency.
  bool steady_only = false;
};

// Figures of the measured phase, with the verdict, which is the same under all formulas.
// Deterministic. A record without one completed request has a summary too: its verdict says so.
// Goodput of our own formulas is by the schedule where the load is open (constant, gamma, trace),
// else by the sending; a request without that figure meets that goal, but for TTFT, which is at
// most E2E where an answer came whole.
PointSummary summarize(const PointRecord& record, const SummaryOptions& options = {});

}  // namespace millrace::bench
