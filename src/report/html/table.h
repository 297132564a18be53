// A table of a page, cell by cell.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "report/html/rows.h"
#include "results/point_summary.h"

namespace millrace::bench {

struct HtmlCell {
  std::string html;                  // escaped already
  std::optional<double> sort_value;  // none: sorted by its text
  std::string title = {};            // shown by the pointer; plain text
};

struct HtmlColumn {
  std::string group;  // columns side by side of one group share a header; empty: none
  std::string header;
  bool is_text = false;  // set to the left
  std::function<std::optional<HtmlCell>(const PageRow&)> cell;
};

// Rows without a cell in a column have a dash there; columns without any cell are left out. Empty
// where no column is left but those of text. `caption` is plain text.
std::string html_table(
    const PageRows& page, const std::vector<HtmlColumn>& columns, const std::string& caption
);

// "12.3" and its interval in the title: "12.0 to 12.6 with 95 %".
HtmlCell figure_cell(double value, const std::optional<Interval>& interval = {});
std::optional<HtmlCell> figure_cell(
    std::optional<double> value, const std::optional<Interval>& interval = {}
);
HtmlCell count_cell(int64_t count);
HtmlCell text_cell(const std::string& text);  // plain text

// The row's name with its framework's colour.
HtmlColumn name_column(const PageRows& page);

}  // namespace millrace::bench
