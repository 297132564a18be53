// How fast a model computes, and what share that is of what the machine can do.
//
// The model is driven through the seam that the engine drives it through (ModelRunner), not through
// the engine: the scheduler, the sampler and the queues cost some ten microseconds a step, which is
// noise here and is measured where it belongs, by `bench serve` and `bench grid --in-process`.
//
// All cases run in turn, as often as there are repetitions, and the machine's limits are measured
// before and after each of them: what swings in the meantime swings for all, and a share is that of
// the limits of the same second.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "bench/engine_cases.h"
#include "model/forward_work.h"
#include "model/model_runner.h"

namespace millrace::bench {

// What the machine can do at the moment.
struct LimitReading {
  double read_bytes_per_s = 0.0;
  double operations_per_s = 0.0;  // of what the weights' format is multiplied with
};

// One run of a case, and the limits around it.
struct SpeedSample {
  double seconds = 0.0;
  double read_bytes_per_s = 0.0;
  double operations_per_s = 0.0;
};

struct SpeedResult {
  SpeedCase speed_case;
  ForwardWork work;       // of all its steps
  int64_t num_steps = 0;  // forward passes
  std::vector<SpeedSample> samples;
};

struct SpeedPlan {
  std::vector<SpeedCase> cases;
  SpeedLayout layout;
  int32_t num_repetitions = 1;
  std::function<LimitReading()> read_limits;
  std::function<ForwardWork(const ForwardBatch&)> work_of;
  // What is under way, and the share of all that is done; may be empty.
  std::function<void(double fraction, const std::string& what)> on_progress;
};

// Fills the contexts, runs one step of each case to warm up, then all cases in turn. A stop leaves
// the case under way out; what was measured stays. REQUIRES: KV blocks for the plan.
std::vector<SpeedResult> measure_speed(
    ModelRunner& runner, const SpeedPlan& plan, const std::stop_token& stop
);

// Which of the two limits leaves less room: a step takes at least the time of its bytes and at
// least the time of its operations.
enum class SpeedLimit { kBandwidth, kCompute };

// "bandwidth", "compute".
[[nodiscard]] std::string_view name_of(SpeedLimit limit);

// Means over the repetitions.
struct SpeedSummary {
  double tokens_per_s = 0.0;
  std::optional<double> tokens_per_s_std;  // of the sample; none for a single repetition
  double step_ms = 0.0;
  double read_gb_per_s = 0.0;
  double peak_tflop_per_s = 0.0;
  SpeedLimit limit = SpeedLimit::kBandwidth;
  double limit_share = 0.0;  // the least time by that limit, of the time taken
};

// REQUIRES: at least one sample.
SpeedSummary summarize_speed(const SpeedResult& result);

}  // namespace millrace::bench
