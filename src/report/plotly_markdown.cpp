// The published comparison of frameworks over request rates: a page of markdown for Jekyll with
// charts by plotly.js, which comes from its own network as in the original.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "report/figures.h"
#include "report/html/text.h"
#include "report/plotly_rates.h"
#include "report/report.h"
#include "report/row_group.h"

namespace millrace::bench {
namespace {

constexpr std::string_view kLibrary = "https://cdn.plot.ly/plotly-3.0.1.min.js";
// Of the frameworks, in their order: the first two are the original's.
constexpr std::string_view kColours[] = {
    "#F17322", "#f8c518", "#4c78a8", "#54a24b", "#b279a2", "#9d755d", "#e45756", "#72b7b2"};

std::string_view colour_of(size_t framework) {
  return kColours[framework % std::size(kColours)];
}

struct RateMetricName {
  std::string key;    // "mean_ttft_ms"
  std::string title;  // "Mean Time To First Token"
};

RateMetricName name_of(Metric metric) {
  std::string key = "mean_" + std::string(to_string(metric)) + "_ms";
  switch (metric) {
    case Metric::kTtft:
      return {std::move(key), "Mean Time To First Token"};
    case Metric::kTpot:
      return {std::move(key), "Mean Time Per Output Token"};
    default:
      return {std::move(key), "Mean Inference Token Latency"};
  }
}

// plotly.js reads some tags in its texts, and its own fields in those of the pointer.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '{' && out.ends_with('%')) out += ' ';
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string chart_html(size_t number, const json::array& data, const json::object& layout) {
  const std::string library =
      number == 1 ? fmt::format("<script charset=\"utf-8\" src=\"{}\"></script>\n", kLibrary) : "";
  return fmt::format(
      "{{% raw %}}\n<div>\n{}<div id=\"chart-{}\" class=\"plotly-graph-div\" "
      "style=\"height:800px; width:100%;\"></div>\n<script>\nPlotly.newPlot(\"chart-{}\",\n{},\n"
      "{},\n{{\"responsive\":true}});\n</script>\n</div>\n{{% endraw %}}\n\n",
      library,
      number,
      number,
      script_json(data),
      script_json(layout)
  );
}

json::object layout_of(const std::string& title, const std::string& x, const std::string& y) {
  return {
      {"title", {{"text", title}}},
      {"barmode", "group"},
      {"height", 800},
      {"plot_bgcolor", "white"},
      {"paper_bgcolor", "white"},
      {"legend",
       {{"orientation", "h"}, {"x", 1}, {"xanchor", "right"}, {"y", 1.02}, {"yanchor", "bottom"}}},
      {"xaxis", {{"type", "category"}, {"title", {{"text", x}, {"standoff", 25}}}}},
      {"yaxis", {{"gridcolor", "#edebf0"}, {"title", {{"text", y}}}}}};
}

json::object bars_of(const std::string& framework, size_t place, json::array x, json::array y) {
  return {
      {"type", "bar"},
      {"name", plain(framework)},
      {"x", std::move(x)},
      {"y", std::move(y)},
      {"marker", {{"color", colour_of(place)}}}};
}

// "vllm", "Tie", "N/A" or "N/A (invalid rounds)".
std::string fastest_text(
    const RateComparison& comparison, const RateLoad& load, const Fastest& fastest
) {
  if (fastest.place) return plain(comparison.frameworks[*fastest.place]);
  if (fastest.is_tie) return "Tie";
  return comparison.invalid.contains(load) ? "N/A (invalid rounds)" : "N/A";
}

// "30.58%", "30.58% +/- 1.20% *", "Tie" or "N/A".
std::string faster_by_text(
    const RateComparison& comparison, Metric metric, const RateLoad& load, const Fastest& fastest
) {
  if (fastest.is_tie) return "Tie";
  if (!fastest.percent) return "N/A";
  std::string text = fmt::format("{:.2f}%", *fastest.percent);
  const auto rounds = comparison.compare(metric, load, *fastest.place, fastest.next);
  if (!rounds) return text;
  const Interval& interval = rounds->faster_percent_interval;
  text += fmt::format(" +/- {:.2f}%", (interval.high - interval.low) / 2.0);
  if (rounds->is_significant) text += " *";
  return text;
}

// The table below the bars: plotly.js wants it by column.
json::object table_of(const RateComparison& comparison, Metric metric) {
  json::array header = {"request_rate", "num_prompts"};
  for (const std::string& framework : comparison.frameworks) {
    header.push_back(json::string(plain(framework) + " (ms)"));
  }
  header.push_back("Fastest");
  header.push_back("Faster by (%)");
  std::vector<json::array> columns(header.size());
  for (const auto& [load, num_prompts] : comparison.loads) {
    const Fastest fastest = comparison.fastest(metric, load);
    auto column = columns.begin();
    (column++)->push_back(json::string(to_string(load)));
    (column++)->push_back(num_prompts);
    for (size_t framework = 0; framework < comparison.frameworks.size(); ++framework) {
      const std::optional<double> mean = comparison.mean(metric, load, framework);
      (column++)->push_back(json::string(fixed(mean, 2, "N/A")));
    }
    (column++)->push_back(json::string(fastest_text(comparison, load, fastest)));
    (column++)->push_back(json::string(faster_by_text(comparison, metric, load, fastest)));
  }
  json::array cells;
  for (json::array& column : columns) cells.push_back(std::move(column));
  return {
      {"type", "table"},
      {"domain", {{"x", {0, 1}}, {"y", {0, 0.28}}}},
      {"header",
       {{"values", std::move(header)},
        {"align", "center"},
        {"fill", {{"color", "#FFD681"}}},
        {"font", {{"color", "#303030"}, {"size", 12}}}}},
      {"cells", {{"values", std::move(cells)}, {"align", "center"}}}};
}

// All rates of one metric: bars, and the table of who was faster.
std::string summary_chart(const RateComparison& comparison, Metric metric, size_t number) {
  const RateMetricName name = name_of(metric);
  json::array data;
  for (size_t framework = 0; framework < comparison.frameworks.size(); ++framework) {
    json::array x, y, prompts;
    for (const auto& [load, num_prompts] : comparison.loads) {
      x.push_back(json::string(to_string(load)));
      y.push_back(number_or_null(comparison.mean(metric, load, framework)));
      prompts.push_back(json::array{num_prompts});
    }
    const std::string& label = comparison.frameworks[framework];
    json::object bars = bars_of(label, framework, std::move(x), std::move(y));
    bars["customdata"] = std::move(prompts);
    bars["hovertemplate"] =
        "num_prompts: %{customdata[0]}<br>request_rate: %{x}<br>" + plain(label) + ": %{y:.2f} ms";
    data.push_back(std::move(bars));
  }
  data.push_back(table_of(comparison, metric));
  json::object layout = layout_of(
      fmt::format("Model: {} | Summary for {} ({})", plain(comparison.model), name.key, name.title),
      "Request Rate / QPS",
      name.key + " (ms)"
  );
  layout["yaxis"].as_object()["domain"] = {0.48, 1};
  return chart_html(number, data, layout);
}

// All metrics at one load.
std::string load_chart(const RateComparison& comparison, const RateLoad& load, size_t number) {
  json::array data;
  for (size_t framework = 0; framework < comparison.frameworks.size(); ++framework) {
    json::array x, y;
    for (const Metric metric : kRateMetrics) {
      x.push_back(json::string(name_of(metric).key));
      y.push_back(number_or_null(comparison.mean(metric, load, framework)));
    }
    data.push_back(bars_of(comparison.frameworks[framework], framework, std::move(x), std::move(y))
    );
  }
  const std::string rate = to_string(load);
  json::object layout = layout_of(
      fmt::format("Model: {} | QPS: {}", plain(comparison.model), rate),
      fmt::format("Questions Per/Sec (QPS: {})", rate),
      "ms"
  );
  layout["legend"].as_object()["title"] = {{"text", "framework"}};
  return chart_html(number, data, layout);
}

// "07:20 PM April 14, 2025 (UTC)"
std::string created_text(int64_t unix_ns) {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::nanoseconds(unix_ns));
  return fmt::format(
      "{:%I:%M %p %B %d, %Y} (UTC)", fmt::gmtime(std::chrono::system_clock::time_point(seconds))
  );
}

// Findings may quote what came from outside: no tags, neither HTML's nor Liquid's.
std::string inert_markdown(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '{') {
      out += "&#123;";
    } else {
      out += c;
    }
  }
  return out;
}

// Each line is an object of its own; what a browser or Jekyll would misread is escaped within it.
std::string details_html(std::span<const PointSummary> rows) {
  std::string html = "<details><summary>Results JSON</summary>\n\n```json\n";
  for (size_t i = 0; i < rows.size(); ++i)
    html += script_safe_json(plotly_jsonl(rows.subspan(i, 1)));
  return html + "```\n\n</details>\n";
}

}  // namespace

std::string plotly_markdown(std::span<const PointSummary> rows, const ReportOptions& options) {
  std::string text = fmt::format(
      "# {}\n\n### Created {}\n\n",
      table_cell(
          options.title.empty() ? "Inference Framework Benchmarks" : inert_markdown(options.title)
      ),
      created_text(options.now_unix_ns)
  );
  size_t number = 0;
  bool has_invalid = false;
  for (const RateComparison& comparison : compare_rates(rows)) {
    has_invalid = has_invalid || !comparison.invalid.empty();
    for (const Metric metric : kRateMetrics) {
      text += summary_chart(comparison, metric, ++number);
    }
    for (const auto& [load, num_prompts] : comparison.loads) {
      text += load_chart(comparison, load, ++number);
    }
  }
  if (text.find("% +/- ") != text.npos) {
    text +=
        "`+/-` is the half-width of the interval of confidence over the rounds; `*` marks a "
        "difference that is significant.\n\n";
  }
  if (has_invalid) {
    text += "Who has an invalid round at a rate is not compared there: what fails is fast.\n\n";
  }
  const std::string verdicts = inert_markdown(verdict_lines(row_pointers(rows), options));
  if (!verdicts.empty()) text += verdicts + "\n";
  return text + details_html(rows);
}

}  // namespace millrace::bench
