// How a figure is worded. Every shape of a report leans on these. Pure; a figure that was not said,
// or that is no finite number, becomes the shape's own word for a missing one, never 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "results/point_summary.h"

namespace millrace::bench {

// "4.870" for three decimals.
std::string fixed(std::optional<double> value, int decimals, std::string_view missing);

// As jq prints round(x * 100) / 100: "20.2", "715".
std::string rounded_2(std::optional<double> value, std::string_view missing);

// As Python prints a float: "1.0", "0.5", "inf".
std::string python_float(double value);

std::string whole(std::optional<int64_t> value, std::string_view missing);

std::optional<double> scaled(std::optional<double> value, double factor);

// Of a metric that may not have been said. In the metric's own unit: milliseconds, or tokens.
std::optional<double> mean_of(const PointSummary& row, Metric metric);
std::optional<double> percentile_of(const PointSummary& row, Metric metric, double rank);
// A distribution that was read from a file may have no more than a mean and percentiles: its count
// is 0 then, and its standard deviation is not known; its largest below its mean was not said.
std::optional<double> std_of(const PointSummary& row, Metric metric);
std::optional<double> max_of(const PointSummary& row, Metric metric);
std::optional<double> min_of(const PointSummary& row, Metric metric);

// "50", "99.9"
std::string rank_word(double rank);

// null where there is none.
json::value number_or_null(std::optional<double> value);
json::value count_or_null(std::optional<int64_t> value);
json::value text_or_null(const std::string& text);
// "inf" is a word, since JSON has no number for it: as vLLM writes it.
json::value rate_word(double request_rate);

// "20250414-165148", in UTC.
std::string compact_date(int64_t unix_ns);
// "16:51:48", in UTC.
std::string time_of_day(int64_t unix_ns);

std::string joined(const std::vector<std::string>& parts, std::string_view between);

// One markdown table line of cells: "| a | b |\n". A '|' or a line break within a cell is made
// harmless.
std::string table_line(const std::vector<std::string>& cells);
std::string table_cell(std::string_view text);

}  // namespace millrace::bench
