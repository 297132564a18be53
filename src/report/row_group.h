// Rows of one report put under the headings that they share. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "report/report.h"
#include "results/point_summary.h"

namespace millrace::bench {

struct RowGroup {
  std::string heading;
  std::vector<const PointSummary*> rows;  // borrowed, in the order of the input
};

// In the order in which headings first appear.
std::vector<RowGroup> group_rows(
    std::span<const PointSummary* const> rows,
    const std::function<std::string(const PointSummary&)>& heading_of
);
std::vector<const PointSummary*> row_pointers(std::span<const PointSummary> rows);

// Below a table: one line for each finding, "> row 3 invalid: ...", rows counted from 1; empty
// where nothing is to be said, or is not wanted.
std::string verdict_lines(std::span<const PointSummary* const> rows, const ReportOptions& options);

}  // namespace millrace::bench
