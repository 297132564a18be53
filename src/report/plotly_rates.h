// Rows by model, load and framework, as the published comparison over request rates lays them out.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "results/paired_comparison.h"
#include "results/point_summary.h"

namespace millrace::bench {

// The metrics compared, in their order.
inline constexpr Metric kRateMetrics[] = {Metric::kTtft, Metric::kTpot, Metric::kItl};

struct RateLoad {
  double request_rate = 0.0;  // infinity: all at once
  std::optional<int64_t> max_concurrency;

  friend auto operator<=>(const RateLoad&, const RateLoad&) = default;
};

// "1.0", "infinite", "infinite, 8 at once"
std::string to_string(const RateLoad& load);

// Of frameworks, by one metric at one load.
struct Fastest {
  std::optional<size_t> place;    // of the least; none: two share it, or fewer than two are there
  size_t next = 0;                // where there is a place: of the next
  bool is_tie = false;            // two share the least
  std::optional<double> percent;  // 100 * (slower - faster) / slower, of the next and the least
};

struct RateComparison {
  std::string model;
  std::vector<std::string> frameworks;  // in the order in which they come first
  std::map<RateLoad, int64_t> loads;    // ascending, infinity last; with the number of prompts
  // Of the rounds of one framework; none: no row said it.
  std::optional<double> mean(Metric metric, const RateLoad& load, size_t framework) const;
  // Of the two round by round; none: they have not the same number of rounds, or fewer than two.
  std::optional<PairedComparison> compare(
      Metric metric, const RateLoad& load, size_t framework, size_t other
  ) const;

  // Among those without an invalid round at that load: what fails requests is fast.
  Fastest fastest(Metric metric, const RateLoad& load) const;

  std::map<std::tuple<Metric, RateLoad, size_t>, std::vector<double>> rounds;  // in their order
  std::map<RateLoad, std::set<size_t>> invalid;  // frameworks with an invalid round there
};

// By model, in the order in which they come first.
std::vector<RateComparison> compare_rates(std::span<const PointSummary> rows);

}  // namespace millrace::bench
