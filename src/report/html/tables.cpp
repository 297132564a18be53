#include "report/html/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "report/html/table.h"
#include "report/html/text.h"

namespace millrace::bench {
namespace {

using Cell = std::optional<HtmlCell>;

std::string badge_html(Trust trust) {
  const std::string word(to_string(trust));
  return fmt::format("<span class=\"badge {0}\">{0}</span>", word);
}

HtmlColumn verdict_column(const PageRows& page) {
  return {
      .header = "Verdict",
      .is_text = true,
      .cell = [&page](const PageRow& row) -> Cell {
        const Verdict& verdict = row.summary->verdict;
        HtmlCell cell = {
            .html = badge_html(verdict.trust()),
            .sort_value = static_cast<double>(verdict.trust())};
        if (verdict.findings.empty()) return cell;
        cell.html = fmt::format("<a href=\"#row-{}\">{}</a>", &row - page.rows.data(), cell.html);
        for (const Finding& finding : verdict.findings) {
          cell.title += (cell.title.empty() ? "" : "\n") + finding.message;
        }
        return cell;
      },
  };
}

// A column of one number of the summary.
template <class T>
HtmlColumn count_column(
    std::string group, std::string header, std::optional<T> PointSummary::*figure
) {
  return {
      .group = std::move(group),
      .header = std::move(header),
      .cell = [figure](const PageRow& row) -> Cell {
        const auto& value = row.summary->*figure;
        if (!value) return std::nullopt;
        if constexpr (std::is_integral_v<T>) return count_cell(*value);
        return figure_cell(static_cast<double>(*value));
      },
  };
}

HtmlColumn figure_column(
    std::string group,
    std::string header,
    std::optional<double> PointSummary::*figure,
    std::optional<Interval> PointSummary::*interval
) {
  return {
      .group = std::move(group),
      .header = std::move(header),
      .cell = [=](const PageRow& row) -> Cell {
        return figure_cell(row.summary->*figure, row.summary->*interval);
      },
  };
}

HtmlColumn mean_column(std::string group, Metric metric) {
  return {
      .group = std::move(group),
      .header = "mean",
      .cell = [metric](const PageRow& row) -> Cell {
        const auto& distribution = (*row.summary)[metric];
        if (!distribution) return std::nullopt;
        return figure_cell(distribution->mean, distribution->mean_interval);
      },
  };
}

HtmlColumn percentile_column(std::string group, std::string header, Metric metric, double rank) {
  return {
      .group = std::move(group),
      .header = std::move(header),
      .cell = [metric, rank](const PageRow& row) -> Cell {
        const auto& distribution = (*row.summary)[metric];
        if (!distribution) return std::nullopt;
        for (const Percentile& percentile : distribution->percentiles) {
          if (percentile.rank == rank) return figure_cell(percentile.value, percentile.interval);
        }
        return std::nullopt;
      },
  };
}

void add_metric(std::vector<HtmlColumn>& columns, const std::string& name, Metric metric) {
  columns.push_back(mean_column(name, metric));
  columns.push_back(percentile_column(name, "p50", metric, 50.0));
  columns.push_back(percentile_column(name, "p99", metric, 99.0));
}

std::string percent_text(double share) {
  return share < 0.0995 ? fmt::format("{:.2g} %", 100.0 * share)
                        : fmt::format("{:.0f} %", 100.0 * share);
}

HtmlCell share_cell(double share) {
  const double width = std::clamp(100.0 * share, 0.0, 100.0);
  return {
      .html = fmt::format(
          "<span class=\"bar\"><i style=\"width:{:.1f}%\"></i></span>{}", width, percent_text(share)
      ),
      .sort_value = share};
}

}  // namespace

std::string summary_table(const PageRows& page) {
  std::vector<HtmlColumn> columns = {name_column(page), verdict_column(page)};
  columns.push_back(count_column("Requests", "done", &PointSummary::num_completed));
  columns.push_back(count_column("Requests", "failed", &PointSummary::num_failed));
  columns.push_back(count_column("Requests", "cut off", &PointSummary::num_unfinished));
  columns.push_back(count_column("Requests", "in flight", &PointSummary::concurrency));
  columns.push_back(figure_column(
      "Throughput per second",
      "requests",
      &PointSummary::request_throughput,
      &PointSummary::request_throughput_interval
  ));
  columns.push_back(count_column("Throughput per second", "good", &PointSummary::request_goodput));
  columns.push_back(figure_column(
      "Throughput per second",
      "output tokens",
      &PointSummary::output_throughput,
      &PointSummary::output_throughput_interval
  ));
  columns.push_back(
      count_column("Throughput per second", "all tokens", &PointSummary::total_throughput)
  );
  add_metric(columns, "TTFT, ms", Metric::kTtft);
  add_metric(columns, "TPOT, ms", Metric::kTpot);
  add_metric(columns, "ITL, ms", Metric::kItl);
  add_metric(columns, "E2E, ms", Metric::kE2e);
  columns.push_back(count_column("", "Tokens per chunk", &PointSummary::tokens_per_chunk));
  columns.push_back({
      .header = "Prefix hits",
      .cell = [](const PageRow& row) -> Cell {
        const auto& rate = row.summary->prefix_hit_rate;
        if (!rate) return std::nullopt;
        return HtmlCell{.html = percent_text(*rate), .sort_value = *rate};
      },
  });
  columns.push_back(count_column("", "Cost of 1M tokens", &PointSummary::cost_per_million_tokens));
  columns.push_back(count_column("", "Seconds", &PointSummary::duration_s));
  return html_table(page, columns, "All rows");
}

std::string verdict_list(const PageRows& page) {
  std::string html;
  for (size_t i = 0; i < page.rows.size(); ++i) {
    const PointSummary& summary = *page.rows[i].summary;
    if (summary.verdict.findings.empty() && summary.error_examples.empty()) continue;
    html += fmt::format(
        "<dt id=\"row-{}\">{} {}</dt>\n<dd><ul>\n",
        i,
        badge_html(summary.verdict.trust()),
        html_escaped(page.full_name(page.rows[i]))
    );
    for (const Finding& finding : summary.verdict.findings) {
      html += fmt::format(
          "<li class=\"{}\"><code>{}</code> {}</li>\n",
          to_string(finding.trust),
          html_escaped(finding.code),
          html_escaped(finding.message)
      );
    }
    for (const std::string& error : summary.error_examples) {
      html += fmt::format("<li><code>error</code> {}</li>\n", html_escaped(error));
    }
    html += "</ul></dd>\n";
  }
  return html.empty() ? html : "<dl class=\"verdicts\">\n" + html + "</dl>\n";
}

std::string clocks_table(const PageRows& page) {
  std::vector<HtmlColumn> columns = {name_column(page)};
  const auto add_pair = [&](const std::string& name, Metric sent, Metric scheduled) {
    for (const double rank : {50.0, 99.0}) {
      const std::string group = fmt::format("{} p{:.0f}, ms", name, rank);
      columns.push_back(percentile_column(group, "from sending", sent, rank));
      columns.push_back(percentile_column(group, "from schedule", scheduled, rank));
    }
  };
  add_pair("TTFT", Metric::kTtft, Metric::kTtftScheduled);
  add_pair("E2E", Metric::kE2e, Metric::kE2eScheduled);
  columns.push_back(percentile_column("Wait in the client, ms", "p50", Metric::kQueueTime, 50.0));
  columns.push_back(percentile_column("Wait in the client, ms", "p99", Metric::kQueueTime, 99.0));
  const bool has_schedule = std::any_of(page.rows.begin(), page.rows.end(), [](const auto& row) {
    return (*row.summary)[Metric::kTtftScheduled] || (*row.summary)[Metric::kE2eScheduled];
  });
  return has_schedule ? html_table(page, columns, "Both clocks") : std::string();
}

std::string limits_table(const PageRows& page) {
  std::vector<std::pair<std::string, std::string>> limits;  // name and unit
  for (const PageRow& row : page.rows) {
    if (row.record == nullptr) continue;
    for (const HardwareLimit& limit : row.record->limits) {
      const std::pair key(limit.name, limit.unit);
      if (std::find(limits.begin(), limits.end(), key) == limits.end()) limits.push_back(key);
    }
  }
  std::vector<HtmlColumn> columns = {name_column(page)};
  for (const auto& [name, unit] : limits) {
    const auto find = [key = std::pair(name, unit)](const PageRow& row) -> const HardwareLimit* {
      if (row.record == nullptr) return nullptr;
      for (const HardwareLimit& limit : row.record->limits) {
        if (std::pair(limit.name, limit.unit) == key) return &limit;
      }
      return nullptr;
    };
    columns.push_back({
        .group = name,
        .header = unit,
        .cell = [find](const PageRow& row) -> Cell {
          const HardwareLimit* limit = find(row);
          if (limit == nullptr) return std::nullopt;
          return figure_cell(limit->value);
        },
    });
    columns.push_back({
        .group = name,
        .header = "share reached",
        .cell = [find](const PageRow& row) -> Cell {
          const HardwareLimit* limit = find(row);
          if (limit == nullptr || !limit->share) return std::nullopt;
          return share_cell(*limit->share);
        },
    });
  }
  return html_table(page, columns, "Limits of the hardware");
}

std::string client_table(const PageRows& page) {
  std::vector<HtmlColumn> columns = {name_column(page)};
  const auto add_floor = [&](std::string header, double Calibration::*floor) {
    columns.push_back({
        .group = "Added by the client, ms",
        .header = std::move(header),
        .cell = [floor](const PageRow& row) -> Cell {
          if (row.record == nullptr || !row.record->calibration) return std::nullopt;
          return figure_cell((*row.record->calibration).*floor);
        },
    });
  };
  add_floor("TTFT p50", &Calibration::ttft_p50_ms);
  add_floor("TTFT p99", &Calibration::ttft_p99_ms);
  add_floor("ITL p50", &Calibration::itl_p50_ms);
  add_floor("ITL p99", &Calibration::itl_p99_ms);
  columns.push_back({
      .group = "Added by the client, ms",
      .header = "share of TTFT p50",
      .cell = [](const PageRow& row) -> Cell {
        const auto& ttft = (*row.summary)[Metric::kTtft];
        if (row.record == nullptr || !row.record->calibration || !ttft || ttft->median() <= 0.0) {
          return std::nullopt;
        }
        const double share = row.record->calibration->ttft_p50_ms / ttft->median();
        return HtmlCell{.html = percent_text(share), .sort_value = share};
      },
  });
  const auto add_use = [&](std::string header, auto figure) {
    columns.push_back({
        .group = "The client's own load",
        .header = std::move(header),
        .cell = [figure](const PageRow& row) -> Cell {
          if (row.record == nullptr) return std::nullopt;
          return figure(row.record->client);
        },
    });
  };
  add_use("threads", [](const ClientUse& use) { return count_cell(use.num_threads); });
  add_use("CPU, s", [](const ClientUse& use) { return figure_cell(use.cpu_seconds); });
  add_use("busiest thread", [](const ClientUse& use) {
    return HtmlCell{
        .html = percent_text(use.busiest_thread_share), .sort_value = use.busiest_thread_share};
  });
  add_use("connections", [](const ClientUse& use) { return count_cell(use.num_connections); });
  return html_table(page, columns, "The client");
}

std::string headline_tiles(const PageRows& page) {
  std::array<size_t, 3> num_rows = {};
  const PageRow* fastest = nullptr;
  const PageRow* promptest = nullptr;
  const auto ttft = [](const PageRow& row) { return (*row.summary)[Metric::kTtft]->median(); };
  for (const PageRow& row : page.rows) {
    const Trust trust = row.summary->verdict.trust();
    ++num_rows[static_cast<size_t>(trust)];
    if (trust == Trust::kInvalid) continue;  // nobody is best by what cannot be trusted
    const auto throughput = row.summary->output_throughput;
    if (throughput && (!fastest || *throughput > *fastest->summary->output_throughput)) {
      fastest = &row;
    }
    const auto& metric = (*row.summary)[Metric::kTtft];
    if (metric && metric->percentile(50.0) && (!promptest || ttft(row) < ttft(*promptest))) {
      promptest = &row;
    }
  }
  const auto tile = [](const std::string& label, const std::string& value, const std::string& of) {
    return fmt::format(
        "<div class=\"tile\"><dt>{}</dt><dd>{}<small>{}</small></dd></div>\n", label, value, of
    );
  };
  std::string html = tile(
      "Rows",
      std::to_string(page.rows.size()),
      fmt::format(
          "{} ok, {} to be read with care, {} invalid", num_rows[0], num_rows[1], num_rows[2]
      )
  );
  if (fastest) {
    html += tile(
        "Highest output, tokens/s",
        figure_text(*fastest->summary->output_throughput),
        html_escaped(page.full_name(*fastest))
    );
  }
  if (promptest) {
    html += tile(
        "Lowest median TTFT, ms",
        figure_text(ttft(*promptest)),
        html_escaped(page.full_name(*promptest))
    );
  }
  return "<dl class=\"tiles\">\n" + html + "</dl>\n";
}

}  // namespace millrace::bench
