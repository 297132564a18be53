#include "bench/engine_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "base/clock.h"

namespace millrace::bench {
namespace {

void warm_up(
    ModelRunner& runner, const SpeedPlan& plan, const std::vector<std::vector<ForwardBatch>>& steps
) {
  int32_t context_len = 0;
  int32_t num_sequences = 0;
  for (const SpeedCase& speed_case : plan.cases) {
    context_len = std::max(context_len, speed_case.context_len);
    num_sequences = std::max(num_sequences, speed_case.batch_size);
  }
  for (const ForwardBatch& batch : context_batches(context_len, num_sequences, plan.layout)) {
    runner.forward(batch);
  }
  for (const std::vector<ForwardBatch>& batches : steps) {
    runner.launch(batches.front());
    runner.wait();
  }
}

// Seconds; nullopt when it was stopped. As the engine has it: a runner that draws tokens gets the
// next step before the results of this one are there.
std::optional<double> run_case(
    ModelRunner& runner, const std::vector<ForwardBatch>& batches, const std::stop_token& stop
) {
  const size_t num_ahead = runner.draws_tokens() ? 1 : 0;
  const TimePoint start = Clock::now();
  for (size_t step = 0; step < batches.size(); ++step) {
    const bool is_stopped = stop.stop_requested();
    if (!is_stopped) runner.launch(batches[step]);
    if (step >= num_ahead) runner.wait();
    if (is_stopped) return std::nullopt;
  }
  for (size_t i = 0; i < std::min(num_ahead, batches.size()); ++i) runner.wait();
  return to_seconds(Clock::now() - start);
}

std::string words_of(const SpeedCase& speed_case) {
  return fmt::format(
      "{}, batch {}, context {}",
      name_of(speed_case.phase),
      speed_case.batch_size,
      speed_case.context_len
  );
}

// Mean over the samples of what `value_of` makes of each.
template <class F>
double mean_of(const std::vector<SpeedSample>& samples, F value_of) {
  double sum = 0.0;
  for (const SpeedSample& sample : samples) sum += value_of(sample);
  return sum / static_cast<double>(samples.size());
}

}  // namespace

std::vector<SpeedResult> measure_speed(
    ModelRunner& runner, const SpeedPlan& plan, const std::stop_token& stop
) {
  std::vector<SpeedResult> results;
  std::vector<std::vector<ForwardBatch>> steps;
  for (const SpeedCase& speed_case : plan.cases) {
    steps.push_back(batches_of(speed_case, plan.layout));
    if (runner.draws_tokens()) draw_tokens(speed_case.phase, steps.back());
    SpeedResult& result = results.emplace_back();
    result.speed_case = speed_case;
    result.num_steps = static_cast<int64_t>(steps.back().size());
    for (const ForwardBatch& batch : steps.back()) result.work += plan.work_of(batch);
  }
  if (plan.on_progress) plan.on_progress(0.0, "warming up");
  warm_up(runner, plan, steps);

  const double num_runs = static_cast<double>(plan.cases.size()) * plan.num_repetitions;
  double num_done = 0.0;
  LimitReading before = plan.read_limits();
  for (int32_t repetition = 0; repetition < plan.num_repetitions; ++repetition) {
    for (size_t i = 0; i < plan.cases.size(); ++i) {
      if (plan.on_progress) plan.on_progress(num_done / num_runs, words_of(plan.cases[i]));
      const std::optional<double> seconds = run_case(runner, steps[i], stop);
      if (!seconds) return results;
      const LimitReading after = plan.read_limits();
      results[i].samples.push_back({
          .seconds = *seconds,
          .read_bytes_per_s = (before.read_bytes_per_s + after.read_bytes_per_s) / 2.0,
          .operations_per_s = (before.operations_per_s + after.operations_per_s) / 2.0,
      });
      before = after;
      num_done += 1.0;
    }
  }
  return results;
}

std::string_view name_of(SpeedLimit limit) {
  return limit == SpeedLimit::kBandwidth ? "bandwidth" : "compute";
}

SpeedSummary summarize_speed(const SpeedResult& result) {
  const std::vector<SpeedSample>& samples = result.samples;
  CHECK(!samples.empty(), "something was measured");
  const auto num_tokens = static_cast<double>(result.speed_case.num_tokens_in_all());
  const auto speed = [&](const SpeedSample& sample) { return num_tokens / sample.seconds; };
  const auto bandwidth_share = [&](const SpeedSample& sample) {
    return result.work.bytes() / sample.read_bytes_per_s / sample.seconds;
  };
  const auto compute_share = [&](const SpeedSample& sample) {
    return result.work.operations() / sample.operations_per_s / sample.seconds;
  };

  SpeedSummary summary;
  summary.tokens_per_s = mean_of(samples, speed);
  if (samples.size() > 1) {
    const double variance = mean_of(samples, [&](const SpeedSample& sample) {
      return std::pow(speed(sample) - summary.tokens_per_s, 2.0);
    });
    const auto count = static_cast<double>(samples.size());
    summary.tokens_per_s_std = std::sqrt(variance * count / (count - 1.0));
  }
  const double seconds = mean_of(samples, [](const SpeedSample& sample) { return sample.seconds; });
  summary.step_ms = seconds * 1e3 / static_cast<double>(result.num_steps);
  summary.read_gb_per_s =
      mean_of(samples, [](const SpeedSample& sample) { return sample.read_bytes_per_s * 1e-9; });
  summary.peak_tflop_per_s =
      mean_of(samples, [](const SpeedSample& sample) { return sample.operations_per_s * 1e-12; });
  const double by_bandwidth = mean_of(samples, bandwidth_share);
  const double by_compute = mean_of(samples, compute_share);
  summary.limit = by_compute > by_bandwidth ? SpeedLimit::kCompute : SpeedLimit::kBandwidth;
  summary.limit_share = std::max(by_bandwidth, by_compute);
  return summary;
}

}  // namespace millrace::bench
