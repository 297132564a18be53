// The published grid without HTTP: requests of token ids straight to an engine in this process.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>

#include "base/result.h"
#include "engine/engine.h"
#include "loadgen/load.h"
#include "workload/dataset.h"
#include "workload/token_codec.h"

namespace millrace::bench {

// A closed loop of `max_concurrency` slots over sessions of one turn, greedy, of exact length;
// warm-up as in run_load. Times are those of the engine's events. Texts become ids before the
// clock.
// REQUIRES: options.load is kConcurrency, and options.num_sessions is set.
Result<LoadResult> run_in_process_load(
    Engine& engine,
    const Dataset& dataset,
    const TokenCodec& codec,
    const LoadOptions& options,
    std::stop_token stop
);

}  // namespace millrace::bench
