#include "report/row_group.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/figures.h"

namespace millrace::bench {

std::vector<const PointSummary*> row_pointers(std::span<const PointSummary> rows) {
  std::vector<const PointSummary*> pointers;
  for (const PointSummary& row : rows) pointers.push_back(&row);
  return pointers;
}

std::vector<RowGroup> group_rows(
    std::span<const PointSummary* const> rows,
    const std::function<std::string(const PointSummary&)>& heading_of
) {
  std::vector<RowGroup> groups;
  for (const PointSummary* row : rows) {
    std::string heading = heading_of(*row);
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const RowGroup& group) {
      return group.heading == heading;
    });
    if (found != groups.end()) {
      found->rows.push_back(row);
    } else {
      groups.push_back({std::move(heading), {row}});
    }
  }
  return groups;
}

std::string verdict_lines(std::span<const PointSummary* const> rows, const ReportOptions& options) {
  std::string text;
  if (!options.shows_verdicts) return text;
  for (size_t i = 0; i < rows.size(); ++i) {
    for (const Finding& finding : rows[i]->verdict.findings) {
      // Two lines of one quotation would flow into one; an empty line between them keeps them
      // apart.
      if (!text.empty()) text += ">\n";
      text += fmt::format(
          "> row {} {}: {}\n", i + 1, to_string(finding.trust), table_cell(finding.message)
      );
    }
  }
  return text.empty() ? text : '\n' + text;
}

}  // namespace millrace::bench
