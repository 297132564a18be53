// The metrics of vLLM's client, under its names.
#pragma once

#include <string_view>
#include <vector>

#include "report/report.h"
#include "results/point_summary.h"

namespace millrace::bench {

struct VllmMetric {
  std::string_view key;     // of the JSON: "mean_{key}_ms"
  std::string_view name;    // of the console block
  std::string_view banner;  // above it
  Metric metric;
};

// Those that were asked for, in vLLM's order. What the client's queue adds comes with a limit of
// concurrency alone, and the latency with it only at a finite rate too, where a queue is a delay.
std::vector<VllmMetric> vllm_metrics(const PointSummary& row, const VllmOptions& options);

}  // namespace millrace::bench
