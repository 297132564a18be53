#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "base/json.h"
#include "report/html/plotly_bundle.h"
#include "report/report.h"
#include "report/test_points.h"
#include "results/summarize.h"

namespace millrace::bench {
namespace {

using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Points {
  std::vector<PointRecord> records;
  std::vector<PointSummary> rows;
};

// Two frameworks over the same loads; some rows not to be trusted.
Points make_points() {
  Points points;
  for (const auto& [framework, slowness] : {std::pair{"vllm", 1.4}, std::pair{"sgl", 1.0}}) {
    for (const double rate : {1.0, 10.0, 20.0, 30.0, kInfinity}) {
      const int64_t num_requests = std::isinf(rate) ? 300 : static_cast<int64_t>(20.0 * rate);
      PointRecord record = make_test_record(
          {.framework = framework,
           .request_rate = rate,
           .num_requests = num_requests,
           .slowness = slowness},
          points.records.size() + 1
      );
      points.records.push_back(std::move(record));
    }
  }
  RequestRecord& failed = points.records[1].requests[7];
  failed.outcome = Outcome::kFailed;
  failed.error = "</script><script>window.isHurt = true</script>";
  points.records[4].requests[9].outcome = Outcome::kUnfinished;
  for (const PointRecord& record : points.records) {
    points.rows.push_back(summarize(record, {.num_resamples = 50}));
    points.rows.back().verdict = {};  // chosen here, not judged
  }
  points.rows[1].error_examples = {failed.error};
  points.rows[1].verdict.findings = {
      {Trust::kWarn, "failures", "1 of 200 requests failed (0.5 %)"}};
  points.rows[4].verdict.findings = {
      {Trust::kInvalid, "output_length", "output of 33.1 tokens in the mean, 40 asked for (83 %)"},
      {Trust::kWarn, "few_samples", "p99 of 300 requests"}};
  return points;
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin);
  if (from == text.npos) return {};
  const size_t start = from + begin.size();
  return text.substr(start, text.find(end, start) - start);
}

// A matcher would print the page.
bool contains(const std::string& page, std::string_view text) {
  return page.find(text) != page.npos;
}

json::value page_json(const std::string& page) {
  const auto value =
      parse_json(between(page, "<script type=\"application/json\" id=\"data\">", "</script>"));
  EXPECT_TRUE(value.ok()) << (value ? "" : value.error().message);
  return value ? *value : json::value();
}

size_t num_occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(HtmlPage, HasEveryRowInTheTableAndInTheData) {
  const Points points = make_points();
  const std::string page = html_page(points.rows, points.records, {.title = "vLLM and SGLang"});
  const json::value data = page_json(page);
  EXPECT_EQ(data.at("rows").as_array().size(), points.rows.size());
  EXPECT_EQ(data.at("frameworks").as_array().size(), 2u);
  const std::string table = between(page, "<section id=\"summary\"", "</section>");
  EXPECT_EQ(num_occurrences(between(table, "<tbody>", "</tbody>"), "<tr>"), points.rows.size());
  EXPECT_TRUE(contains(page, "<h1>vLLM and SGLang</h1>"));
  EXPECT_TRUE(contains(page, "millrace bench rate --request-rate"));
  EXPECT_TRUE(contains(page, "AMD EPYC 7763"));
  EXPECT_TRUE(contains(page, "2025-04-14 16:5"));
}

TEST(HtmlPage, FiguresOfTheDataAreThoseOfTheRows) {
  const Points points = make_points();
  const json::value data = page_json(html_page(points.rows, points.records, {}));
  for (size_t i = 0; i < points.rows.size(); ++i) {
    const json::value& row = data.at("rows").at(i);
    const Distribution& ttft = *points.rows[i][Metric::kTtft];
    const double mean = row.at("metrics").at("ttft").at("mean").at(0).to_number<double>();
    EXPECT_NEAR(mean, ttft.mean, 1e-5 * ttft.mean);
    const auto& p99 = row.at("metrics").at("ttft").at("p99").as_array();
    EXPECT_NEAR(p99.at(0).to_number<double>(), *ttft.percentile(99.0), 1e-5 * mean);
    const bool has_interval =
        std::any_of(ttft.percentiles.begin(), ttft.percentiles.end(), [](const Percentile& one) {
          return one.rank == 99.0 && one.interval;
        });
    EXPECT_EQ(p99.size(), has_interval ? 3u : 1u);
    EXPECT_NEAR(
        row.at("output_throughput").at(0).to_number<double>(),
        *points.rows[i].output_throughput,
        1e-5 * *points.rows[i].output_throughput
    );
  }
  EXPECT_TRUE(data.at("rows").at(4).at("load").at("request_rate").is_null());
  EXPECT_EQ(data.at("rows").at(4).at("trust"), "invalid");
}

TEST(HtmlPage, TextFromOutsideIsNeverMarkup) {
  const std::string evil =
      "</script><img src=x onerror=\"hurt('&')\"><!-- {{data}} {%raw%}\xE2\x80\xA8\xFF";
  Points points = make_points();
  for (size_t i = 0; i < points.rows.size(); ++i) {
    for (PointPlan* plan : {&points.rows[i].plan, &points.records[i].plan}) {
      plan->name = plan->framework = plan->model = plan->version = plan->label = plan->device =
          evil;
      plan->metadata = {{evil, evil}};
    }
    points.rows[i].error_examples = {evil};
    points.rows[i].verdict.findings = {{Trust::kWarn, "failures", evil}};
    points.records[i].environment.push_back({evil, evil});
    points.records[i].limits[0].name = evil;
  }
  const std::string page = html_page(points.rows, points.records, {.title = evil});
  EXPECT_FALSE(contains(page, "<img"));
  EXPECT_FALSE(contains(page, "<!-- "));
  EXPECT_FALSE(contains(between(page, "id=\"data\">", "</script>"), "\xE2\x80\xA8"));
  EXPECT_FALSE(contains(page, "\xFF"));
  EXPECT_EQ(num_occurrences(page, "</script"), 3u);
  const json::value data = page_json(page);
  EXPECT_THAT(
      std::string(data.at("rows").at(0).at("name").as_string()),
      HasSubstr("</script><img src=x onerror=\"hurt('&')\"><!-- {{data}} {%raw%}")
  );
}

TEST(HtmlPage, RowsWithoutRecordsHaveNoCurves) {
  const Points points = make_points();
  const std::string page = html_page(points.rows, {}, {});
  EXPECT_TRUE(contains(page, "id=\"latency-chart\""));
  EXPECT_FALSE(contains(page, "id=\"curves-chart\""));
  EXPECT_FALSE(page_json(page).at("rows").at(0).as_object().contains("curves"));
}

TEST(HtmlPage, ARowFindsItsOwnRecord) {
  const Points points = make_points();
  const std::vector<PointRecord> records = {points.records[3], points.records[0]};
  const json::value data = page_json(html_page(points.rows, records, {}));
  const auto num_requests = [&](size_t row) {
    return data.at("rows").at(row).at("timeline").at("num_requests");
  };
  EXPECT_EQ(num_requests(0), points.records[0].plan.num_prompts);
  EXPECT_EQ(num_requests(3), points.records[3].plan.num_prompts);
  EXPECT_FALSE(data.at("rows").at(1).as_object().contains("timeline"));
}

TEST(HtmlPage, NoRowsAreAPageToo) {
  const std::string page = html_page({}, {}, {});
  EXPECT_EQ(page_json(page).at("rows").as_array().size(), 0u);
  EXPECT_TRUE(contains(page, "<h1>Benchmark</h1>"));
}

TEST(HtmlPage, HoldsTheChartLibraryAndAsksNothingOfTheNetwork) {
  const Points points = make_points();
  const std::string page = html_page(points.rows, points.records, {});
  EXPECT_THAT(plotly_gzip(), ::testing::StartsWith("\x1F\x8B"));
  EXPECT_GT(plotly_gzip().size(), 500'000u);
  EXPECT_TRUE(contains(page, "id=\"plotly\">H4sI"));
  EXPECT_TRUE(contains(page, "default-src 'none'"));
  EXPECT_FALSE(contains(page, "src=\"http"));
  EXPECT_LT(page.size(), 4'000'000u);
}

// For tests/page/report_test.py, which opens the page in a browser, and for eyes.
TEST(HtmlPage, IsWrittenWhereItIsAskedFor) {
  const char* path = std::getenv("MILLRACE_REPORT_PAGE");
  if (path == nullptr) GTEST_SKIP() << "MILLRACE_REPORT_PAGE names no file";
  const Points points = make_points();
  std::ofstream file(path, std::ios::binary);
  file << html_page(
      points.rows,
      points.records,
      {.title = "<b>vLLM</b> and SGLang on one A100", .now_unix_ns = 1'744'653'600'000'000'000}
  );
  EXPECT_TRUE(file.good());
}

}  // namespace
}  // namespace millrace::bench
