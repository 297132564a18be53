#include "bench/precision.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "results/point_summary.h"
#include "results/summarize.h"

namespace millrace::bench {
namespace {

constexpr size_t kNumRequestsMin = 30;
constexpr int32_t kNumResamples = 200;  // each second, beside the load: fewer than a report's

bool is_within(const std::optional<Interval>& interval, double value, double share) {
  if (!interval || !(value > 0.0)) return false;
  return (interval->high - interval->low) / 2.0 <= share * value;
}

bool is_within(const std::optional<Distribution>& distribution, double share) {
  // An answer that is not streamed has none: nothing to wait for.
  if (!distribution || distribution->count == 0) return true;
  return is_within(distribution->mean_interval, distribution->mean, share);
}

PointRecord record_of(const PointPlan& plan, const std::vector<RequestRecord>& finished) {
  PointRecord record;
  record.plan = plan;
  record.requests = finished;
  record.first_dispatch = Nanos::max();
  for (const RequestRecord& request : finished) {
    if (request.phase != Phase::kMeasured) continue;
    record.first_dispatch = std::min(record.first_dispatch, request.admitted);
    record.finished = std::max(record.finished, request.ended);
  }
  return record;
}

}  // namespace

std::function<bool(const std::vector<RequestRecord>&)> precision_test(
    const PointPlan& plan, double percent
) {
  return [plan, share = percent / 100.0](const std::vector<RequestRecord>& finished) {
    if (finished.size() < kNumRequestsMin) return false;
    const PointSummary row = summarize(record_of(plan, finished), {.num_resamples = kNumResamples});
    return is_within(row[Metric::kTtft], share) && is_within(row[Metric::kItl], share) &&
           is_within(row.output_throughput_interval, row.output_throughput.value_or(0.0), share);
  };
}

}  // namespace millrace::bench
