// One point as a command wants it, and what that means for the load generator and the record.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "bench/flags.h"
#include "bench/measured_server.h"
#include "loadgen/clean_point.h"
#include "results/point_record.h"
#include "workload/dataset.h"

namespace millrace::bench {

// What differs between the points of a command.
struct PointSpec {
  std::string name;  // of the row
  LoadPlan load;
  DatasetOptions dataset;
  std::optional<int64_t> num_prompts;  // none: as many as come in max_seconds
  std::optional<double> max_seconds;
  std::optional<int64_t> num_warmups;  // none: as the flags say, else a few
  double rampup_seconds = 0.0;
};

// As --request-rate, --max-concurrency and so on say it: without a finite rate a closed loop where
// a concurrency is given, else all at once.
LoadPlan load_of(const LoadFlags& flags);

// Prompts that are a function of the seed, the point and the nonce.
Result<std::unique_ptr<Dataset>> point_dataset(
    const BenchFlags& flags,
    const PointSpec& spec,
    uint64_t nonce,
    size_t point,
    std::shared_ptr<const TokenCodec> codec
);

CleanPointOptions clean_point_options(
    const BenchFlags& flags, const MeasuredServer& server, const PointSpec& spec, size_t point
);

}  // namespace millrace::bench
