#include "report/html/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "report/html/text.h"

namespace millrace::bench {
namespace {

struct FilledColumn {
  const HtmlColumn* column = nullptr;
  std::vector<std::optional<HtmlCell>> cells;  // [rows]
};

std::vector<FilledColumn> fill(const PageRows& page, const std::vector<HtmlColumn>& columns) {
  std::vector<FilledColumn> filled;
  for (const HtmlColumn& column : columns) {
    FilledColumn one = {.column = &column};
    for (const PageRow& row : page.rows) one.cells.push_back(column.cell(row));
    const bool has_any = std::any_of(one.cells.begin(), one.cells.end(), [](const auto& cell) {
      return cell.has_value();
    });
    if (has_any) filled.push_back(std::move(one));
  }
  return filled;
}

std::string header_html(const HtmlColumn& column, bool is_tall) {
  return fmt::format(
      "<th scope=\"col\"{}{}>{}</th>",
      column.is_text ? " class=\"text\"" : "",
      is_tall ? " rowspan=\"2\"" : "",
      html_escaped(column.header)
  );
}

// Two lines where columns have groups, else one.
std::string head_html(const std::vector<FilledColumn>& columns) {
  const bool has_groups = std::any_of(columns.begin(), columns.end(), [](const auto& column) {
    return !column.column->group.empty();
  });
  std::string upper, lower;
  for (size_t i = 0; i < columns.size();) {
    const std::string& group = columns[i].column->group;
    if (group.empty()) {
      upper += header_html(*columns[i++].column, has_groups);
      continue;
    }
    const size_t begin = i;
    while (i < columns.size() && columns[i].column->group == group) {
      lower += header_html(*columns[i++].column, false);
    }
    upper += fmt::format(
        "<th scope=\"colgroup\" class=\"group\" colspan=\"{}\">{}</th>",
        i - begin,
        html_escaped(group)
    );
  }
  std::string html = "<thead><tr>" + upper + "</tr>";
  if (has_groups) html += "<tr>" + lower + "</tr>";
  return html + "</thead>\n";
}

std::string cell_html(const FilledColumn& column, size_t row) {
  const auto& cell = column.cells[row];
  std::string attributes;
  if (column.column->is_text) attributes += " class=\"text\"";
  if (!cell) return "<td" + attributes + ">–</td>";
  if (cell->sort_value && std::isfinite(*cell->sort_value)) {
    attributes += fmt::format(" data-sort=\"{}\"", *cell->sort_value);
  }
  if (!cell->title.empty()) attributes += fmt::format(" title=\"{}\"", html_escaped(cell->title));
  return "<td" + attributes + ">" + cell->html + "</td>";
}

}  // namespace

std::string html_table(
    const PageRows& page, const std::vector<HtmlColumn>& columns, const std::string& caption
) {
  const std::vector<FilledColumn> filled = fill(page, columns);
  const bool has_figures = std::any_of(filled.begin(), filled.end(), [](const auto& column) {
    return !column.column->is_text;
  });
  if (!has_figures) return {};
  std::string html = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table "
      "class=\"sortable\">\n<caption class=\"unseen\">{0}</caption>\n",
      html_escaped(caption)
  );
  html += head_html(filled) + "<tbody>\n";
  for (size_t row = 0; row < page.rows.size(); ++row) {
    html += "<tr>";
    for (const FilledColumn& column : filled) html += cell_html(column, row);
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

HtmlCell figure_cell(double value, const std::optional<Interval>& interval) {
  HtmlCell cell = {.html = figure_text(value), .sort_value = value};
  if (interval) {
    cell.title = fmt::format(
        "{} to {} with {:.0f} % confidence",
        figure_text(interval->low),
        figure_text(interval->high),
        100.0 * interval->confidence
    );
  }
  return cell;
}

std::optional<HtmlCell> figure_cell(
    std::optional<double> value, const std::optional<Interval>& interval
) {
  if (!value) return std::nullopt;
  return figure_cell(*value, interval);
}

HtmlCell count_cell(int64_t count) {
  return {.html = count_text(count), .sort_value = static_cast<double>(count)};
}

HtmlCell text_cell(const std::string& text) {
  return {.html = html_escaped(text)};
}

HtmlColumn name_column(const PageRows& page) {
  return {
      .header = "Row",
      .is_text = true,
      .cell = [&page](const PageRow& row) -> std::optional<HtmlCell> {
        std::string html = html_escaped(row.name);
        if (page.series.size() > 1) {
          html += fmt::format(
              "<small><i class=\"dot series-{}\"></i>{}</small>",
              row.series % 8,
              html_escaped(page.series[row.series].name)
          );
        }
        return HtmlCell{.html = std::move(html)};
      },
  };
}

}  // namespace millrace::bench
