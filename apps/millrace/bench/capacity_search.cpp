#include "bench/capacity_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace millrace::bench {
namespace {

constexpr double kBendMin = 0.1;  // of the curve's height: less is noise
constexpr double kLoadMin = 1e-3;
// Codes of findings that are not the server's doing.
constexpr std::string_view kSpoiling[] = {
    "rate", "client_saturated", "client_limit", "schedule_lag", "client_floor", "leftovers"};

struct Goal {
  Metric metric;
  std::optional<double> limit_ms;
};

std::array<Goal, 4> list_of(const Goals& goals) {
  return {{
      {Metric::kTtft, goals.ttft_ms},
      {Metric::kTpot, goals.tpot_ms},
      {Metric::kItl, goals.itl_ms},
      {Metric::kE2e, goals.e2e_ms},
  }};
}

// none: the metric has no samples, or not that rank.
const Percentile* percentile_of(const PointSummary& row, Metric metric, double rank) {
  const std::optional<Distribution>& distribution = row[metric];
  if (!distribution) return nullptr;
  for (const Percentile& percentile : distribution->percentiles) {
    if (percentile.rank == rank) return &percentile;
  }
  return nullptr;
}

bool has_failed(const PointSummary& row) {
  return row.num_completed.value_or(0) == 0 || row.num_failed.value_or(0) > 0 ||
         row.num_unfinished.value_or(0) > 0 || row.verdict.trust() == Trust::kInvalid;
}

}  // namespace

const Finding* spoiling_finding(const PointSummary& row) {
  for (const Finding& finding : row.verdict.findings) {
    const bool is_spoiling = std::ranges::find(kSpoiling, finding.code) != std::end(kSpoiling);
    if (is_spoiling && finding.trust == Trust::kInvalid) return &finding;
  }
  return nullptr;
}

GoalState judge_goals(const PointSummary& row, const Goals& goals, double rank) {
  if (spoiling_finding(row) != nullptr) return GoalState::kUnknown;
  if (has_failed(row)) return GoalState::kMissed;
  GoalState state = GoalState::kMet;
  for (const Goal& goal : list_of(goals)) {
    if (!goal.limit_ms) continue;
    const Percentile* percentile = percentile_of(row, goal.metric, rank);
    if (percentile == nullptr) return GoalState::kMissed;
    const std::optional<Interval>& interval = percentile->interval;
    if (interval && interval->low > *goal.limit_ms) return GoalState::kMissed;
    if (!interval || interval->high > *goal.limit_ms) state = GoalState::kUndecided;
  }
  return state;
}

bool meets_goals(const PointSummary& row, const Goals& goals, double rank) {
  if (has_failed(row)) return false;
  return std::ranges::all_of(list_of(goals), [&](const Goal& goal) {
    if (!goal.limit_ms) return true;
    const Percentile* percentile = percentile_of(row, goal.metric, rank);
    return percentile != nullptr && percentile->value <= *goal.limit_ms;
  });
}

double CapacitySearch::rounded(double load) const {
  return options_.is_whole ? std::max(1.0, std::round(load)) : load;
}

std::optional<double> CapacitySearch::next() const {
  if (!most_met_ && !least_missed_) return rounded(std::min(options_.start, options_.load_max));
  if (!least_missed_) {
    if (*most_met_ >= options_.load_max) return std::nullopt;
    return rounded(std::min(*most_met_ * 2.0, options_.load_max));
  }
  if (!most_met_) {
    const double half = options_.is_whole ? std::floor(*least_missed_ / 2.0) : *least_missed_ / 2.0;
    if (half < (options_.is_whole ? 1.0 : kLoadMin)) return std::nullopt;
    return half;
  }
  if (*least_missed_ <= *most_met_ * (1.0 + options_.tolerance)) return std::nullopt;
  const double middle = std::sqrt(*most_met_ * *least_missed_);
  if (!options_.is_whole) return middle;
  if (*least_missed_ - *most_met_ < 2.0) return std::nullopt;
  return std::clamp(std::round(middle), *most_met_ + 1.0, *least_missed_ - 1.0);
}

void CapacitySearch::note(double load, bool is_met) {
  if (is_met) {
    most_met_ = std::max(load, most_met_.value_or(load));
  } else {
    least_missed_ = std::min(load, least_missed_.value_or(load));
  }
  // Noise may have a lower load miss what a higher one met: the lower one counts.
  if (most_met_ && least_missed_ && *most_met_ >= *least_missed_) most_met_.reset();
}

std::optional<double> find_knee(std::vector<std::pair<double, double>> points) {
  std::ranges::sort(points);
  if (points.size() < 3) return std::nullopt;
  const auto [least, most] = std::pair(points.front(), points.back());
  double top = 0.0;
  for (const auto& [load, throughput] : points) top = std::max(top, throughput);
  const double width = most.first - least.first;
  const double height = top - least.second;
  if (!(width > 0.0) || !(height > 0.0)) return std::nullopt;
  double bend_max = kBendMin;
  std::optional<double> knee;
  for (const auto& [load, throughput] : points) {
    const double bend = (throughput - least.second) / height - (load - least.first) / width;
    if (bend <= bend_max) continue;
    bend_max = bend;
    knee = load;
  }
  return knee;
}

}  // namespace millrace::bench
