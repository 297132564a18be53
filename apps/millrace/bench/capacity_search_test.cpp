// The search for the most load: against made-up servers whose capacity is known.
#include "bench/capacity_search.h"

#include <gtest/gtest.h>

#include <cmath>

namespace millrace::bench {
namespace {

// Searches against a server that keeps to its goals up to `capacity`; gives the loads it measured.
std::vector<double> search(CapacitySearch& search, double capacity) {
  std::vector<double> loads;
  while (const std::optional<double> load = search.next()) {
    loads.push_back(*load);
    search.note(*load, *load <= capacity);
    if (loads.size() > 100) break;
  }
  EXPECT_LE(loads.size(), 60U);
  return loads;
}

TEST(CapacitySearch, FindsARateWithinItsTolerance) {
  for (const double capacity : {0.01, 0.7, 1.0, 3.3, 97.0, 12345.0}) {
    CapacitySearch rates({.start = 1.0, .tolerance = 0.02});
    search(rates, capacity);
    ASSERT_TRUE(rates.most_met() && rates.least_missed()) << capacity;
    EXPECT_LE(*rates.most_met(), capacity);
    EXPECT_GT(*rates.least_missed(), capacity);
    EXPECT_LE(*rates.least_missed(), *rates.most_met() * 1.02);
  }
}

TEST(CapacitySearch, FindsAConcurrencyExactly) {
  for (const double capacity : {1.0, 2.0, 4.0, 5.0, 37.0, 500.0}) {
    CapacitySearch slots({.start = 1.0, .tolerance = 1e-9, .is_whole = true});
    for (const double load : search(slots, capacity)) EXPECT_EQ(load, std::round(load));
    EXPECT_EQ(slots.most_met(), capacity);
    EXPECT_EQ(slots.least_missed(), capacity + 1.0);
  }
}

TEST(CapacitySearch, DoublesAndThenBisects) {
  CapacitySearch slots({.start = 1.0, .tolerance = 0.05, .is_whole = true});
  EXPECT_EQ(search(slots, 4.0), (std::vector<double>{1, 2, 4, 8, 6, 5}));
}

TEST(CapacitySearch, NeverExceedsTheMost) {
  CapacitySearch rates({.start = 3.0, .load_max = 10.0});
  EXPECT_EQ(search(rates, 1e9), (std::vector<double>{3, 6, 10}));
  EXPECT_EQ(rates.most_met(), 10.0);
  EXPECT_FALSE(rates.least_missed());
}

TEST(CapacitySearch, GivesUpWhereNothingIsLittleEnough) {
  CapacitySearch slots({.start = 8.0, .is_whole = true});
  EXPECT_EQ(search(slots, 0.0), (std::vector<double>{8, 4, 2, 1}));
  EXPECT_FALSE(slots.most_met());
  CapacitySearch rates({.start = 1.0});
  search(rates, 0.0);
  EXPECT_FALSE(rates.most_met());
}

TEST(CapacitySearch, ALowerLoadThatMissesCounts) {
  CapacitySearch rates({});
  rates.note(8.0, true);
  rates.note(4.0, false);
  EXPECT_FALSE(rates.most_met());
  EXPECT_EQ(rates.next(), 2.0);
}

struct MadeFigure {
  double value = 0.0;
  std::optional<Interval> interval;
};

PointSummary row_of(const MadeFigure& ttft) {
  PointSummary row;
  row.num_completed = 100;
  row.num_failed = row.num_unfinished = 0;
  Distribution distribution;
  distribution.count = 100;
  distribution.percentiles = {
      {.rank = 50.0, .value = 1.0, .interval = {}},
      {.rank = 99.0, .value = ttft.value, .interval = ttft.interval},
  };
  row[Metric::kTtft] = distribution;
  return row;
}

TEST(Goals, AreJudgedByTheWholeInterval) {
  const Goals goals{.ttft_ms = 100.0};
  const auto judge = [&](const MadeFigure& figure) {
    return judge_goals(row_of(figure), goals, 99.0);
  };
  EXPECT_EQ(judge({.value = 90, .interval = Interval{80, 100}}), GoalState::kMet);
  EXPECT_EQ(judge({.value = 90, .interval = Interval{80, 101}}), GoalState::kUndecided);
  EXPECT_EQ(judge({.value = 110, .interval = Interval{99, 120}}), GoalState::kUndecided);
  EXPECT_EQ(judge({.value = 110, .interval = Interval{101, 120}}), GoalState::kMissed);
  // Figures of too few samples for an interval once were taken for exact.
  EXPECT_EQ(judge({.value = 100, .interval = {}}), GoalState::kUndecided);
  EXPECT_EQ(judge({.value = 100.1, .interval = {}}), GoalState::kUndecided);
}

TEST(Goals, WhatStaysUndecidedIsDecidedByTheFigure) {
  const Goals goals{.ttft_ms = 100.0};
  EXPECT_TRUE(meets_goals(row_of({.value = 99, .interval = Interval{80, 120}}), goals, 99.0));
  EXPECT_FALSE(meets_goals(row_of({.value = 101, .interval = Interval{80, 120}}), goals, 99.0));
}

TEST(Goals, AreMissedByFailuresAndByFiguresThatAreNotThere) {
  const Goals goals{.ttft_ms = 100.0};
  PointSummary row = row_of({.value = 10, .interval = {}});
  EXPECT_EQ(judge_goals(row, goals, 95.0), GoalState::kMissed) << "no such rank";
  EXPECT_EQ(judge_goals(row, {.e2e_ms = 1.0}, 99.0), GoalState::kMissed) << "no such metric";
  row.num_unfinished = 1;
  EXPECT_EQ(judge_goals(row, goals, 99.0), GoalState::kMissed);
  EXPECT_FALSE(meets_goals(row, goals, 99.0));
  row.num_unfinished = 0;
  row.num_failed = 1;
  EXPECT_EQ(judge_goals(row, goals, 99.0), GoalState::kMissed);
  row.num_failed = row.num_completed = 0;
  EXPECT_EQ(judge_goals(row, goals, 99.0), GoalState::kMissed);
}

PointSummary row_with(std::vector<Finding> findings) {
  PointSummary row = row_of({.value = 90, .interval = Interval{80, 99}});
  row.verdict.findings = std::move(findings);
  return row;
}

// Answers of a third of their length once kept to every goal.
TEST(Goals, AreMissedByRowsThatAreInvalid) {
  const Goals goals{.ttft_ms = 100.0};
  const auto judge = [&](Trust trust, std::string_view code) {
    return judge_goals(row_with({{trust, code, "why"}}), goals, 99.0);
  };
  for (const char* code : {"output_length", "prompt_length", "prefix_hits", "stopped_early"}) {
    EXPECT_EQ(judge(Trust::kInvalid, code), GoalState::kMissed) << code;
    EXPECT_EQ(judge(Trust::kWarn, code), GoalState::kMet) << code;
  }
  EXPECT_FALSE(meets_goals(row_with({{Trust::kInvalid, "output_length", "why"}}), goals, 99.0));
}

TEST(Goals, AreUnknownWhereTheClientIsWhatWasMeasured) {
  const Goals goals{.ttft_ms = 100.0};
  for (const char* code : {"client_saturated", "client_limit", "schedule_lag", "leftovers"}) {
    const PointSummary row =
        row_with({{Trust::kInvalid, "failures", "some"}, {Trust::kInvalid, code, "why"}});
    ASSERT_NE(spoiling_finding(row), nullptr) << code;
    EXPECT_EQ(spoiling_finding(row)->code, code);
    EXPECT_EQ(judge_goals(row, goals, 99.0), GoalState::kUnknown) << code;
    EXPECT_EQ(judge_goals(row_with({{Trust::kWarn, code, "why"}}), goals, 99.0), GoalState::kMet);
  }
}

TEST(Knee, IsWhereThroughputStopsToGrow) {
  std::vector<std::pair<double, double>> curve;
  for (const double load : {1.0, 2.0, 4.0, 8.0, 16.0, 32.0}) {
    curve.emplace_back(load, 100.0 * std::min(load, 8.0));
  }
  EXPECT_EQ(find_knee(curve), 8.0);
  std::swap(curve.front(), curve.back());
  EXPECT_EQ(find_knee(curve), 8.0) << "in any order";
}

TEST(Knee, IsNotThereOnALineOrAmongTwoPoints) {
  EXPECT_FALSE(find_knee({{1, 10}, {2, 20}, {3, 30}, {4, 40}}));
  EXPECT_FALSE(find_knee({{1, 10}, {2, 10}, {3, 10}}));
  EXPECT_FALSE(find_knee({{1, 10}, {2, 20}}));
  EXPECT_FALSE(find_knee({}));
}

}  // namespace
}  // namespace millrace::bench
