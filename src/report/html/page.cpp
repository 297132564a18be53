// The page that needs nothing else: tables that are complete without a script, and charts that
// plotly.js draws. All of it lies in the one file; nothing is asked of the network.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

#include "base/check.h"
#include "report/html/data.h"
#include "report/html/page_files.h"
#include "report/html/plotly_bundle.h"
#include "report/html/rows.h"
#include "report/html/tables.h"
#include "report/html/text.h"
#include "report/report.h"

namespace millrace::bench {
namespace {

std::string_view page_file(std::string_view path) {
  for (const EmbeddedFile& file : report_page_files()) {
    if (file.path == path) return file.content;
  }
  CHECK(false, "src/report/page lacks a file");
  return {};
}

// A part of the page; none without a body.
std::string section(
    std::string_view id, std::string_view title, std::string_view lead, const std::string& body
) {
  if (body.empty()) return {};
  return fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{1}</h2>\n{2}{3}"
      "</section>\n",
      id,
      title,
      lead.empty() ? std::string() : fmt::format("<p class=\"lead\">{}</p>\n", lead),
      body
  );
}

std::string title_text(const PageRows& page, const ReportOptions& options) {
  if (!options.title.empty()) return options.title;
  const std::string model = page.rows.empty() ? "" : page.rows.front().summary->plan.model;
  return model.empty() ? "Benchmark" : "Benchmark of " + model;
}

// "2026-11-21 13:51 UTC"; empty: not known.
std::string date_text(int64_t unix_ns) {
  if (unix_ns <= 0) return {};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Nanos(unix_ns));
  return fmt::format(
      "{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::chrono::system_clock::time_point(seconds))
  );
}

std::string environment_value(const PageRows& page, std::string_view key) {
  for (const PageRow& row : page.rows) {
    if (row.record == nullptr) continue;
    for (const auto& [name, value] : row.record->environment) {
      if (name == key) return value;
    }
  }
  return {};
}

std::string about_html(const PageRows& page, const ReportOptions& options) {
  int64_t measured_at = 0;
  for (const PageRow& row : page.rows) {
    measured_at = std::max(measured_at, row.summary->started_unix_ns);
  }
  std::string html;
  const auto add = [&](std::string_view label, const std::string& value) {
    if (value.empty()) return;
    html += fmt::format("<span>{} <b>{}</b></span>\n", label, html_escaped(value));
  };
  std::string frameworks;
  for (const std::string& name : page.frameworks) {
    if (!name.empty()) frameworks += (frameworks.empty() ? "" : ", ") + name;
  }
  add(page.frameworks.size() > 1 ? "Compared:" : "Server:", frameworks);
  add("Measured", date_text(measured_at));
  add("Written", date_text(options.now_unix_ns));
  add("by millrace", environment_value(page, "millrace"));
  const std::string command = environment_value(page, "command");
  if (!html.empty()) html = "<p class=\"about\">\n" + html + "</p>\n";
  if (!command.empty()) {
    html += "<pre class=\"command\"><code>" + html_escaped(command) + "</code></pre>\n";
  }
  return html;
}

// Charts with the controls that the script gives them. `controls` is the page's own.
std::string chart(std::string_view id, std::string_view label, std::string_view controls) {
  return fmt::format(
      "<form class=\"controls\" aria-label=\"{1}\">{2}</form>\n<figure id=\"{0}\" class=\"chart\" "
      "role=\"img\" aria-label=\"{1}\"><noscript>Charts need a script; the tables hold the same "
      "figures.</noscript></figure>\n",
      id,
      label,
      controls
  );
}

std::string chart_sections(const PageRows& page) {
  const bool has_records = std::any_of(page.rows.begin(), page.rows.end(), [](const auto& row) {
    return row.record != nullptr;
  });
  std::string html = section(
      "latency",
      "Latency against load",
      "Bars are the intervals of confidence, where there are some. A hollow mark is to be read "
      "with care, a cross is invalid.",
      chart("latency-chart", "Latency against load", page_file("/latency_controls.html"))
  );
  html += section(
      "pareto",
      "Throughput against speed",
      "Up: what the server gives in all. Right: what each user sees of it. The line joins what "
      "nothing of its kind beats in both.",
      chart(
          "pareto-chart",
          "Output throughput against tokens per second of a user",
          page_file("/pareto_controls.html")
      )
  );
  if (!has_records) return html;
  html += section(
      "distributions",
      "Distributions",
      "The share of requests, or of gaps between tokens, at or below each time. Requests that were "
      "cut off count as longer than they were watched.",
      chart("curves-chart", "Distribution functions", page_file("/curves_controls.html"))
  );
  html += section(
      "timeline",
      "Time line",
      "",
      chart("timeline-chart", "Time line of requests", page_file("/timeline_controls.html"))
  );
  return html;
}

std::string table_sections(const PageRows& page) {
  std::string html = section(
      "clocks",
      "Both clocks",
      "From the sending, as most tools count; and from the time at which the load's shape wanted "
      "the request sent, which leaves out no wait.",
      clocks_table(page)
  );
  html +=
      section("limits", "Limits of the hardware", "Measured beside the run.", limits_table(page));
  html += section(
      "client",
      "The client",
      "What it adds to each time, measured against a server of known times at the same load, and "
      "how busy it was itself.",
      client_table(page)
  );
  html += section("setup", "What was measured", "", setup_tables(page));
  html += section("environment", "Where the client ran", "", environment_table(page));
  return html;
}

}  // namespace

std::string html_page(
    std::span<const PointSummary> rows,
    std::span<const PointRecord> records,
    const ReportOptions& options
) {
  const PageRows page = arrange_rows(rows, records);
  std::string script;
  for (const std::string_view path :
       {"/plotly.js", "/charts.js", "/timeline.js", "/tables.js", "/main.js"}) {
    script += page_file(path);
  }
  return fill_template(
      page_file("/page.html"),
      {{"title", html_escaped(title_text(page, options))},
       {"style", std::string(page_file("/style.css"))},
       {"about", about_html(page, options)},
       {"tiles", headline_tiles(page)},
       {"summary", section("summary", "Summary", "", summary_table(page))},
       {"verdicts",
        options.shows_verdicts ? section("verdicts", "Verdicts", "", verdict_list(page)) : ""},
       {"charts", chart_sections(page)},
       {"tables", table_sections(page)},
       {"data", script_json(page_data(page))},
       {"plotly", base64(plotly_gzip())},
       {"script", script}}
  );
}

}  // namespace millrace::bench
