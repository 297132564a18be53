// The search for the most load that keeps to goals, and for the knee of a throughput curve. Pure.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "results/point_record.h"
#include "results/point_summary.h"
#include "results/verdict.h"

namespace millrace::bench {

enum class GoalState {
  kMet,        // the whole interval of each percentile is within its goal
  kMissed,     // some whole interval is beyond its goal, requests failed, or the row is invalid
  kUndecided,  // more samples would tell
  kUnknown,    // the row is invalid for what is not the server's doing, and so says nothing of it
};

// What makes a row say nothing of the server at that load: the client was its limit, or the server
// was still busy before it began. nullptr: nothing.
const Finding* spoiling_finding(const PointSummary& row);

// Looks at the percentile `rank` of each metric that has a goal. Without any completed request:
// missed. Without an interval, which is withheld where there are too few samples: undecided.
GoalState judge_goals(const PointSummary& row, const Goals& goals, double rank);

// As above, but what is undecided is decided by the figures themselves.
bool meets_goals(const PointSummary& row, const Goals& goals, double rank);

struct CapacitySearchOptions {
  double start = 1.0;       // the first load
  double load_max = 1e6;    // is never exceeded
  double tolerance = 0.05;  // done when missed / met is below 1 + this
  bool is_whole = false;    // loads are whole numbers (concurrency)
};

// Doubles the load until it is too much, or halves it until it is not, then bisects between the
// two.
class CapacitySearch {
 public:
  explicit CapacitySearch(const CapacitySearchOptions& options) : options_(options) {}

  // The load to measure next; none: found, or not to be found.
  std::optional<double> next() const;
  void note(double load, bool is_met);

  std::optional<double> most_met() const { return most_met_; }
  std::optional<double> least_missed() const { return least_missed_; }

 private:
  double rounded(double load) const;

  CapacitySearchOptions options_;
  std::optional<double> most_met_;
  std::optional<double> least_missed_;
};

// Of points (load, throughput): the load from which on more of it brings little more throughput,
// where the curve is furthest above the line between its ends (Satopaa et al., "Finding a
// 'Kneedle' in a Haystack", 2011). none: fewer than three points, or no bend of more than a tenth.
std::optional<double> find_knee(std::vector<std::pair<double, double>> points);

}  // namespace millrace::bench
