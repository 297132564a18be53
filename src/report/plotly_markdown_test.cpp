#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "report/plotly_rates.h"
#include "report/report.h"
#include "report/test_points.h"

namespace millrace::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const std::string kPublished = MILLRACE_SOURCE_DIR "/../shared/data/published/rate.jsonl";

// "20250414-165148" as UTC.
int64_t unix_ns_of(const std::string& date) {
  using namespace std::chrono;
  const auto number = [&](size_t at, size_t size) { return std::stoi(date.substr(at, size)); };
  const year_month_day day(
      year(number(0, 4)),
      month(static_cast<unsigned>(number(4, 2))),
      std::chrono::day(static_cast<unsigned>(number(6, 2)))
  );
  const auto time =
      sys_days(day) + hours(number(9, 2)) + minutes(number(11, 2)) + seconds(number(13, 2));
  return duration_cast<nanoseconds>(time.time_since_epoch()).count();
}

Distribution published_metric(const json::object& line, const std::string& name) {
  Distribution metric;
  metric.mean = line.at("mean_" + name).to_number<double>();
  metric.std = line.at("std_" + name).to_number<double>();
  metric.count = 1;
  metric.percentiles = {
      {50.0, line.at("median_" + name).to_number<double>()},
      {99.0, line.at("p99_" + name).to_number<double>()}};
  return metric;
}

PointSummary published_row(const json::object& line) {
  const auto text = [&](const char* key) { return std::string(line.at(key).as_string()); };
  PointSummary row;
  row.started_unix_ns = unix_ns_of(text("date"));
  row.plan.backend = text("backend");
  row.plan.model = text("model_id");
  row.plan.tokenizer = text("tokenizer_id");
  row.plan.framework = text("framework");
  row.plan.num_prompts = line.at("num_prompts").to_number<int64_t>();
  const json::value& rate = line.at("request_rate");
  row.plan.load.request_rate = rate.is_string() ? kInfinity : rate.to_number<double>();
  row.plan.load.burstiness = line.at("burstiness").to_number<double>();
  row.duration_s = line.at("duration").to_number<double>();
  row.num_completed = line.at("completed").to_number<int64_t>();
  row.num_input_tokens = line.at("total_input_tokens").to_number<int64_t>();
  row.num_output_tokens = line.at("total_output_tokens").to_number<int64_t>();
  row.request_throughput = line.at("request_throughput").to_number<double>();
  row.output_throughput = line.at("output_throughput").to_number<double>();
  row.total_throughput = line.at("total_token_throughput").to_number<double>();
  row[Metric::kTtft] = published_metric(line, "ttft_ms");
  row[Metric::kTpot] = published_metric(line, "tpot_ms");
  row[Metric::kItl] = published_metric(line, "itl_ms");
  return row;
}

// Empty where the file is not there.
std::string published_text() {
  std::ifstream file(kPublished, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<PointSummary> published_rows(const std::string& text) {
  std::vector<PointSummary> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    const auto value = parse_json(line);
    EXPECT_TRUE(value.ok());
    rows.push_back(published_row(value->as_object()));
  }
  return rows;
}

struct ParsedChart {
  json::array data;
  json::object layout;

  std::string title() const { return std::string(layout.at("title").at("text").as_string()); }
  // The rows of its table, cell by cell; the first is the header.
  std::vector<std::vector<std::string>> table() const {
    const json::object& table = data.back().as_object();
    const auto text = [](const json::value& cell) {
      return cell.is_string() ? std::string(cell.as_string()) : to_json_text(cell);
    };
    std::vector<std::vector<std::string>> rows(1);
    for (const json::value& cell : table.at("header").at("values").as_array()) {
      rows[0].push_back(text(cell));
    }
    const json::array& columns = table.at("cells").at("values").as_array();
    for (size_t row = 0; row < columns.at(0).as_array().size(); ++row) {
      auto& cells = rows.emplace_back();
      for (const json::value& column : columns) cells.push_back(text(column.at(row)));
    }
    return rows;
  }
};

std::vector<ParsedChart> parse_charts(const std::string& page) {
  std::vector<ParsedChart> charts;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("Plotly.newPlot(")) continue;
    std::string data, layout;
    std::getline(lines, data);
    std::getline(lines, layout);
    const auto parsed_data = parse_json(std::string_view(data).substr(0, data.size() - 1));
    const auto parsed_layout = parse_json(std::string_view(layout).substr(0, layout.size() - 1));
    EXPECT_TRUE(parsed_data.ok() && parsed_layout.ok()) << line;
    if (!parsed_data || !parsed_layout) return charts;
    charts.push_back({parsed_data->as_array(), parsed_layout->as_object()});
  }
  return charts;
}

size_t num_occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

PointSummary rate_row(const std::string& framework, double rate, double ttft_ms) {
  PointSummary row;
  row.plan.framework = framework;
  row.plan.backend = "vllm";
  row.plan.model = "m";
  row.plan.num_prompts = 120;
  row.plan.load.request_rate = rate;
  for (const Metric metric : kRateMetrics) row[metric] = Distribution{.count = 1, .mean = ttft_ms};
  return row;
}

TEST(PlotlyJsonl, WritesThePublishedFileAgainByteForByte) {
  const std::string text = published_text();
  if (text.empty()) GTEST_SKIP() << kPublished << " is missing";
  std::string expected = text;
  if (!expected.ends_with('\n')) expected += '\n';
  EXPECT_EQ(plotly_jsonl(published_rows(text)), expected);
}

TEST(PlotlyMarkdown, EveryCellOfThePublishedTablesIsRecomputed) {
  const std::string text = published_text();
  if (text.empty()) GTEST_SKIP() << kPublished << " is missing";
  const std::vector<PointSummary> rows = published_rows(text);
  const std::vector<ParsedChart> charts = parse_charts(plotly_markdown(rows, {}));
  ASSERT_EQ(charts.size(), 9u);
  int num_cells = 0;
  for (size_t chart = 0; chart < 3; ++chart) {
    const auto table = charts[chart].table();
    EXPECT_THAT(
        table[0],
        ElementsAre(
            "request_rate", "num_prompts", "vllm (ms)", "sgl (ms)", "Fastest", "Faster by (%)"
        )
    );
    ASSERT_EQ(table.size(), 7u);
    EXPECT_EQ(table.back()[0], "infinite");
    for (size_t i = 1; i < table.size(); ++i) {
      // From the rows themselves, not from the rounded cells.
      const auto mean = [&](const std::string& framework) {
        for (const PointSummary& row : rows) {
          const double rate = table[i][0] == "infinite" ? kInfinity : std::stod(table[i][0]);
          if (row.plan.framework == framework && row.plan.load.request_rate == rate) {
            EXPECT_EQ(table[i][1], std::to_string(row.plan.num_prompts));
            return row[kRateMetrics[chart]]->mean;
          }
        }
        return std::nan("");
      };
      const double vllm = mean("vllm");
      const double sgl = mean("sgl");
      EXPECT_EQ(table[i][2], fmt::format("{:.2f}", vllm));
      EXPECT_EQ(table[i][3], fmt::format("{:.2f}", sgl));
      EXPECT_EQ(table[i][4], vllm < sgl ? "vllm" : "sgl");
      const double percent = 100.0 * std::abs(vllm - sgl) / std::max(vllm, sgl);
      EXPECT_EQ(table[i][5], fmt::format("{:.2f}%", percent));
      ++num_cells;
    }
  }
  EXPECT_EQ(num_cells, 18);
}

TEST(PlotlyMarkdown, HasTheChartsOfTheOriginal) {
  const std::string text = published_text();
  if (text.empty()) GTEST_SKIP() << kPublished << " is missing";
  const std::string page =
      plotly_markdown(published_rows(text), {.now_unix_ns = unix_ns_of("20250414-192000")});
  EXPECT_THAT(
      page,
      ::testing::StartsWith(
          "# Inference Framework Benchmarks\n\n### Created 07:20 PM April 14, 2025 (UTC)\n\n"
      )
  );
  const std::vector<ParsedChart> charts = parse_charts(page);
  ASSERT_EQ(charts.size(), 9u);
  EXPECT_EQ(
      charts[0].title(),
      "Model: meta-llama/Llama-3.1-8B-Instruct | Summary for mean_ttft_ms (Mean Time To First "
      "Token)"
  );
  EXPECT_EQ(charts[3].title(), "Model: meta-llama/Llama-3.1-8B-Instruct | QPS: 1.0");
  EXPECT_EQ(charts[8].title(), "Model: meta-llama/Llama-3.1-8B-Instruct | QPS: infinite");
  EXPECT_EQ(charts[8].layout.at("legend").at("title").at("text"), "framework");
  EXPECT_EQ(charts[0].data.at(0).at("marker").at("color"), "#F17322");
  EXPECT_EQ(charts[0].data.at(1).at("marker").at("color"), "#f8c518");
  EXPECT_EQ(
      charts[0].data.at(0).at("hovertemplate"),
      "num_prompts: %{customdata[0]}<br>request_rate: %{x}<br>vllm: %{y:.2f} ms"
  );
  EXPECT_EQ(num_occurrences(page, "{% raw %}"), 9u);
  EXPECT_EQ(num_occurrences(page, "{% endraw %}"), 9u);
  EXPECT_EQ(num_occurrences(page, "plotly-3.0.1.min.js"), 1u);
  const size_t details = page.find("<details><summary>Results JSON</summary>");
  ASSERT_NE(details, page.npos);
  EXPECT_EQ(num_occurrences(page.substr(details), "{\"date\": \"20250414-"), 12u);
}

TEST(PlotlyMarkdown, SaysTieAndNotAvailable) {
  const std::vector<PointSummary> rows = {
      rate_row("vllm", kInfinity, 50.0),
      rate_row("vllm", 2.0, 50.0),
      rate_row("sgl", 2.0, 50.0),
      rate_row("sgl", 4.0, 10.0)};
  const auto table = parse_charts(plotly_markdown(rows, {})).at(0).table();
  EXPECT_THAT(table[1], ElementsAre("2.0", "120", "50.00", "50.00", "Tie", "Tie"));
  EXPECT_THAT(table[2], ElementsAre("4.0", "120", "N/A", "10.00", "N/A", "N/A"));
  EXPECT_THAT(table[3], ElementsAre("infinite", "120", "50.00", "N/A", "N/A", "N/A"));
}

// The half-width of Student's interval of the ratio of means; six rounds are the fewest of which
// flipping signs can be sure.
TEST(PlotlyMarkdown, RoundsGiveThePercentageASpreadAndItsSignificance) {
  std::vector<PointSummary> clear;
  std::vector<PointSummary> unclear;
  for (const double round : {-2.0, -1.0, 0.0, 1.0, 2.0, 3.0}) {
    clear.push_back(rate_row("vllm", 2.0, 100.0 + round));
    clear.push_back(rate_row("sgl", 2.0, 70.0 - round));
    unclear.push_back(rate_row("vllm", 2.0, 100.0 + 20.0 * round));
    unclear.push_back(rate_row("sgl", 2.0, 99.0 - 20.0 * round));
  }
  const std::string page = plotly_markdown(clear, {});
  const std::string cell = parse_charts(page).at(0).table()[1][5];
  EXPECT_THAT(cell, StartsWith("30.85% +/- "));
  EXPECT_THAT(cell, EndsWith("% *"));
  EXPECT_THAT(page, HasSubstr("`*` marks a difference that is significant"));
  const std::string other = parse_charts(plotly_markdown(unclear, {})).at(0).table()[1][5];
  EXPECT_THAT(other, HasSubstr("% +/- "));
  EXPECT_THAT(other, Not(EndsWith("*")));
}

// A server that failed half its requests once was the fastest.
TEST(PlotlyMarkdown, WhoHasAnInvalidRoundIsNotCompared) {
  const auto failed = [](PointSummary row) {
    row.verdict.findings = {{Trust::kInvalid, "failures", "3 of 6 requests failed"}};
    return row;
  };
  const auto cells = [](const std::vector<PointSummary>& rows) {
    return parse_charts(plotly_markdown(rows, {})).at(0).table()[1];
  };
  const PointSummary slow = rate_row("vllm", 2.0, 90.0);
  const PointSummary fast = rate_row("sgl", 2.0, 60.0);
  const PointSummary broken = failed(rate_row("broken", 2.0, 6.0));
  EXPECT_THAT(
      cells({slow, broken}),
      ElementsAre("2.0", "120", "90.00", "6.00", "N/A (invalid rounds)", "N/A")
  );
  EXPECT_THAT(
      cells({failed(slow), fast}),
      ElementsAre("2.0", "120", "90.00", "60.00", "N/A (invalid rounds)", "N/A")
  );
  EXPECT_THAT(
      cells({slow, broken, fast}),
      ElementsAre("2.0", "120", "90.00", "6.00", "60.00", "sgl", "33.33%")
  );
  // One of several rounds is enough, and what is invalid elsewhere does not count.
  EXPECT_EQ(cells({slow, fast, slow, failed(fast)})[4], "N/A (invalid rounds)");
  EXPECT_EQ(cells({slow, fast, failed(rate_row("sgl", 4.0, 1.0))})[4], "sgl");
  EXPECT_THAT(plotly_markdown(std::vector{slow, broken}, {}), HasSubstr("not compared there"));
  EXPECT_THAT(plotly_markdown(std::vector{slow, fast}, {}), Not(HasSubstr("not compared there")));
}

TEST(PlotlyMarkdown, OneRoundHasNoSpread) {
  const std::vector<PointSummary> rows = {
      rate_row("vllm", 2.0, 100.0), rate_row("sgl", 2.0, 69.42)};
  const std::string page = plotly_markdown(rows, {});
  EXPECT_EQ(parse_charts(page).at(0).table()[1][5], "30.58%");
  EXPECT_THAT(page, Not(HasSubstr("significant")));
}

TEST(PlotlyMarkdown, RoundsOfOneFrameworkAreTakenTogether) {
  const std::vector<PointSummary> rows = {
      rate_row("vllm", 2.0, 90.0),
      rate_row("sgl", 2.0, 60.0),
      rate_row("vllm", 2.0, 110.0),
      rate_row("sgl", 2.0, 70.0)};
  const auto table = parse_charts(plotly_markdown(rows, {})).at(0).table();
  ASSERT_EQ(table.size(), 2u);
  EXPECT_THAT(
      table[1], ElementsAre("2.0", "120", "100.00", "65.00", "sgl", StartsWith("35.00% +/- "))
  );
}

TEST(PlotlyMarkdown, OfThreeFrameworksTheFirstIsComparedWithTheNext) {
  const std::vector<PointSummary> rows = {
      rate_row("vllm", 2.0, 90.0), rate_row("sgl", 2.0, 60.0), rate_row("millrace", 2.0, 45.0)};
  const auto table = parse_charts(plotly_markdown(rows, {})).at(0).table();
  EXPECT_THAT(table[1], ElementsAre("2.0", "120", "90.00", "60.00", "45.00", "millrace", "25.00%"));
}

TEST(PlotlyMarkdown, EachModelHasItsOwnCharts) {
  std::vector<PointSummary> rows = {rate_row("vllm", 2.0, 90.0), rate_row("vllm", 2.0, 60.0)};
  rows[1].plan.model = "other";
  const auto charts = parse_charts(plotly_markdown(rows, {}));
  ASSERT_EQ(charts.size(), 8u);
  EXPECT_THAT(charts[4].title(), HasSubstr("Model: other | Summary"));
}

TEST(PlotlyMarkdown, TextFromOutsideIsNeitherMarkupNorATemplate) {
  PointSummary row = rate_row("<img src=x>{% endraw %}%{x}", 2.0, 1.0);
  row.plan.model = "</script>{{ site.secret }}";
  row.verdict.findings = {{Trust::kWarn, "failures", "<b>{% include x %}</b>"}};
  const std::string page = plotly_markdown(std::vector{row}, {.title = "<i>{{ t }}</i>"});
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
  EXPECT_THAT(page, Not(HasSubstr("<i>")));
  EXPECT_THAT(page, Not(HasSubstr("{{")));
  EXPECT_THAT(page, Not(HasSubstr("{% include")));
  EXPECT_EQ(num_occurrences(page, "{% endraw %}"), 4u);
  EXPECT_EQ(num_occurrences(page, "</script>"), 4u + 1u);
  EXPECT_EQ(parse_charts(page).size(), 4u);
}

TEST(PlotlyMarkdown, NoRowsAreAPageToo) {
  EXPECT_THAT(plotly_markdown({}, {}), HasSubstr("<details>"));
  EXPECT_EQ(plotly_jsonl({}), "");
}

}  // namespace
}  // namespace millrace::bench
