// One point of a benchmark, from a clean start: the server idle, its cache as asked for, itself
// watched from before the load until after it.
#pragma once

#include <chrono>
#include <stop_token>

#include "base/result.h"
#include "loadgen/load.h"
#include "loadgen/server_probe.h"
#include "loadgen/target.h"
#include "results/point_record.h"
#include "workload/dataset.h"

namespace millrace::bench {

struct CleanPointOptions {
  PointPlan plan;  // as reports print it; its load is that of `load`
  LoadOptions load;
  bool flushes_cache = false;
  bool reads_metrics = true;
  std::chrono::milliseconds idle_timeout{60'000};  // then it is measured all the same, and shows
  std::chrono::milliseconds sample_interval{1'000};
};

// Waits for the server to be idle, empties its cache where asked to, warms it up, measures.
// kUnsupported: the cache is to be emptied and the server has no way to.
Result<PointRecord> measure_clean_point(
    const Target& target,
    ServerProbe& probe,
    const Dataset& dataset,
    const CleanPointOptions& options,
    std::stop_token stop
);

}  // namespace millrace::bench
