// The audit's rules, each on rows made for it; and rows without a fault, which must stay without.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"
#include "report/import.h"
#include "report/report_fixture.h"

namespace millrace::bench {
namespace {

using testing::HasSubstr;

ImportedFile audit_of(const std::string& text) {
  Result<ImportedFile> file = import_results(text, "made");
  EXPECT_TRUE(file.ok()) << file.error().message;
  if (!file) return {};
  audit(*file);
  return *std::move(file);
}

std::string all_findings(const ImportedFile& file) {
  std::string text;
  for (const ImportedRow& row : file.rows) {
    for (const Finding& finding : row.summary.verdict.findings) {
      text += fmt::format("line {}: {}: {}\n", row.line, finding.code, finding.message);
    }
  }
  return text;
}

const std::string kConcurrencyHeader =
    "| Concurrency | Request Throughput (req/s) | Output Token Throughput (tok/s) | Mean E2E "
    "Latency "
    "(ms) | P99 E2E Latency (ms) | Mean TTFT (ms) | P99 TTFT (ms) | Mean TPOT (ms) | P99 TPOT (ms) "
    "|\n|:--:|:--:|:--:|:--:|:--:|:--:|:--:|:--:|:--:|\n";

// A server whose steps take longer with more requests, measured with ten requests for each place.
std::string clean_concurrency_row(int64_t places, int64_t output_len) {
  const double num = static_cast<double>(places), length = static_cast<double>(output_len);
  const double tpot = 10.0 + 0.2 * num, ttft = 50.0 + 10.0 * num;
  const double e2e = ttft + tpot * (length - 1.0);
  // One at a time has no idle places at its end.
  const double rate = (places == 1 ? 0.998 : 0.96) * num / e2e * 1e3;
  return fmt::format(
      "| {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} |\n",
      places,
      rate,
      rate * length,
      e2e,
      1.2 * e2e,
      ttft,
      3.0 * ttft,
      tpot,
      1.1 * tpot
  );
}

TEST(Audit, FindsNothingInACleanConcurrencyTable) {
  std::string text;
  for (const int64_t output_len : {100, 1000}) {
    text += fmt::format("# vLLM\n\n## Benchmark Result (ISL:OSL=500:{})\n\n", output_len);
    text += kConcurrencyHeader;
    for (const int64_t places : {1, 2, 4, 8, 16, 32, 64, 128}) {
      text += clean_concurrency_row(places, output_len);
    }
  }
  const ImportedFile file = audit_of(text);
  EXPECT_EQ(file.rows.size(), 16u);
  EXPECT_EQ(all_findings(file), "");
}

TEST(Audit, FindsNothingInACleanGrid) {
  std::string text =
      "# Grid\n\n## m\n\n|Framework  |Version    |CPU;GPU    |B/I/H/O        |Avg TTFT (s)   |Avg "
      "E2E "
      "(s)    |RPS    |TPS        |\n|-|-|-|-|-|-|-|-|\n";
  for (const int64_t places : {1, 4, 8}) {
    const double e2e = 12.0 + 0.1 * static_cast<double>(places);
    const double rate = 0.998 * static_cast<double>(places) / e2e;
    text += fmt::format(
        "|vllm|1|c|{}/32/0/1024|0.020|{:.3f}|{:.2f}|{:.2f}|\n", places, e2e, rate, rate * 1056.0
    );
    text += fmt::format("|wnr|1|c|{}/32/0/1024|m|m|m|m|\n", places);
  }
  EXPECT_EQ(all_findings(audit_of(text)), "");
}

// The first once was ok, and the lengths of the second overflowed when they were added up.
TEST(Audit, FindsLengthsThatNoGridHas) {
  const std::string head =
      "# Grid\n\n## m\n\n|Framework  |Version    |CPU;GPU    |B/I/H/O        |Avg TTFT (s)   |Avg "
      "E2E (s)    |RPS    |TPS        |\n|-|-|-|-|-|-|-|-|\n";
  for (const char* cell : {"0/0/0/0", "1/32/0/0", "1/32/33/8"}) {
    EXPECT_THAT(
        all_findings(audit_of(head + "|vllm|1|c|" + cell + "|0.020|1.000|1.00|1.00|\n")),
        HasSubstr(fmt::format("absurd: {}: a batch", cell))
    );
  }
  const std::string huge = "|vllm|1|c|1/9223372036854775807/0/9223372036854775807|";
  EXPECT_THAT(
      all_findings(audit_of(head + huge + "0.020|1.000|1.00|1.00|\n")),
      HasSubstr("contradiction: TPS / (I + O) is 0.000")
  );
}

const std::string kSweepHeader =
    "- **model**, **2**张**A100**, **vLLM**, prompt_tokens=512, generated_tokens=128\n\n| "
    "Benchmark | "
    "Requests per Second | Request Latency | Time to First Token | Inter Token Latency | Output "
    "Token Throughput |\n| :---: | :---: | :---: | :---: | :---: | :---: |\n";

struct SweepRow {
  std::string name;
  double rate = 0.0, latency_s = 0.0, ttft_ms = 0.0;
};

std::string sweep_line(const SweepRow& row) {
  const double itl_ms = (row.latency_s * 1e3 - row.ttft_ms) / 127.0;
  return fmt::format(
      "| {} | {:.2f} req/sec | {:.2f} sec | {:.2f} ms | {:.2f} ms | {:.2f} tokens/sec |\n",
      row.name,
      row.rate,
      row.latency_s,
      row.ttft_ms,
      itl_ms,
      row.rate * 128.0
  );
}

// From 0.5 to 9.5 requests per second in nine steps of 1.
std::vector<SweepRow> clean_sweep() {
  std::vector<SweepRow> rows = {{"synchronous", 0.5, 2.0, 100.0}};
  for (int i = 1; i <= 9; ++i) {
    const double asked = 0.5 + i;
    rows.push_back(
        {fmt::format("asynchronous@{:.2f} req/sec", asked), 0.97 * asked, 2.0 + 0.5 * i, 110.0}
    );
  }
  rows.push_back({"throughput", 9.5, 15.0, 5000.0});
  return rows;
}

std::string sweep_text(const std::vector<SweepRow>& rows) {
  std::string text = kSweepHeader;
  for (const SweepRow& row : rows) text += sweep_line(row);
  return text;
}

TEST(Audit, FindsNothingInACleanSweep) {
  EXPECT_EQ(all_findings(audit_of(sweep_text(clean_sweep()))), "");
}

TEST(Audit, FindsAMistypedRateOfASweepAndNoOther) {
  std::vector<SweepRow> rows = clean_sweep();
  rows[4].name = "asynchronous@4.05 req/sec";
  const ImportedFile file = audit_of(sweep_text(rows));
  EXPECT_EQ(num_with(file, "spacing", Trust::kInvalid), 1u);
  EXPECT_THAT(
      all_findings(file),
      HasSubstr("line 9: spacing: asked for 4.05 requests per second, where step "
                "4 of 9 from 0.50 to 9.50 is 4.50")
  );
}

TEST(Audit, FindsWhatAnEarlierPointLeftBehind) {
  std::vector<SweepRow> rows = clean_sweep();
  rows[2].rate = 2.8;  // of 2.5
  rows[2].latency_s = 40.0;
  const ImportedFile file = audit_of(sweep_text(rows));
  EXPECT_TRUE(has_finding(row_at(file, 7), "surplus", Trust::kInvalid)) << all_findings(file);
  EXPECT_TRUE(has_finding(row_at(file, 7), "disturbed", Trust::kInvalid));
  EXPECT_EQ(num_of(file, Trust::kInvalid), 1u) << all_findings(file);
}

TEST(Audit, FindsARowOfZerosAndOneThatStandsWrong) {
  std::vector<SweepRow> rows = clean_sweep();
  std::swap(rows[5], rows[6]);
  rows[1] = {"asynchronous@1.50 req/sec", 0.0, 0.0, 0.0};
  const ImportedFile file = audit_of(sweep_text(rows));
  EXPECT_TRUE(has_finding(row_at(file, 6), "no_requests", Trust::kInvalid)) << all_findings(file);
  EXPECT_TRUE(has_finding(row_at(file, 11), "unsorted", Trust::kWarn)) << all_findings(file);
  EXPECT_EQ(num_of(file, Trust::kInvalid), 1u);
}

std::string one_concurrency_row(const std::string& cells) {
  return "# s\n## Benchmark Result (ISL:OSL=500:1000)\n" + kConcurrencyHeader + cells;
}

TEST(Audit, FindsAnOutputLengthThatWasNotReached) {
  const ImportedFile file =
      audit_of(one_concurrency_row("| 1 | 0.12 | 98.98 | 8400 | 9000 | 100 | 110 | 10.1 | 10.2 |\n")
      );
  EXPECT_THAT(all_findings(file), HasSubstr("output_length: 823 output tokens a request, 82.3 %"));
}

TEST(Audit, FindsMoreInFlightThanTheLoadAllows) {
  const ImportedFile above =
      audit_of(one_concurrency_row("| 4 | 0.6 | 600 | 10090 | 11000 | 100 | 110 | 10 | 10.2 |\n"));
  EXPECT_THAT(
      all_findings(above),
      HasSubstr("littles_law: rate times latency is 6.05 requests in "
                "flight, where the load keeps 4: no more can be")
  );
  const ImportedFile below =
      audit_of(one_concurrency_row("| 4 | 0.2 | 200 | 10090 | 11000 | 100 | 110 | 10 | 10.2 |\n"));
  EXPECT_TRUE(has_finding(&below.rows[0], "littles_law", Trust::kInvalid));
}

// With ten waves and a longest latency of three times the mean, the end of the run costs a fifth.
TEST(Audit, GivesAClosedLoopTheIdleTimeOfItsEnd) {
  const ImportedFile file =
      audit_of(one_concurrency_row("| 32 | 2.54 | 2540 | 10090 | 30270 | 100 | 110 | 10 | 10.2 |\n")
      );
  EXPECT_EQ(num_with(file, "littles_law", Trust::kInvalid), 0u) << all_findings(file);
}

TEST(Audit, FindsFiguresThatNoRunCanGive) {
  EXPECT_THAT(
      all_findings(
          audit_of(one_concurrency_row("| 1 | 0.1 | 100 | 90 | 91 | 100 | 110 | 10 | 11 |\n"))
      ),
      HasSubstr("contradiction: mean TTFT 100.00 ms is above mean E2E 90.00 ms")
  );
  EXPECT_THAT(
      all_findings(audit_of(one_concurrency_row("| 1 | 0.1 | 100 | -90 | 91 | 10 | 11 | 10 | 11 |\n"
      ))),
      HasSubstr("absurd: -90 is no time, count or rate")
  );
  EXPECT_THAT(
      all_findings(
          audit_of(one_concurrency_row("| 1 | 0.1 | 99.1 | 10090 | 9000 | 100 | 110 | 10 | 11 |\n"))
      ),
      HasSubstr("outliers: e2e: the mean 10090.00 is above p99 9000.00")
  );
}

// A run of vLLM's client that nothing is wrong with.
json::object clean_vllm() {
  json::object row;
  row["date"] = "20260102-030405";
  row["backend"] = "vllm";
  row["model_id"] = "m";
  row["num_prompts"] = 1200;
  row["request_rate"] = 10.0;
  row["burstiness"] = 1.0;
  row["max_concurrency"] = nullptr;
  row["duration"] = 121.0;
  row["completed"] = 1200;
  row["total_input_tokens"] = 1200000;
  row["total_output_tokens"] = 120000;
  row["request_throughput"] = 1200 / 121.0;
  row["output_throughput"] = 120000 / 121.0;
  row["total_token_throughput"] = 1320000 / 121.0;
  for (const std::string metric : {"ttft", "tpot", "itl"}) {
    const double mean = metric == "ttft" ? 50.0 : 9.0;
    row["mean_" + metric + "_ms"] = mean;
    row["median_" + metric + "_ms"] = 0.9 * mean;
    row["std_" + metric + "_ms"] = 0.2 * mean;
    row["p99_" + metric + "_ms"] = 2.0 * mean;
  }
  return row;
}

ImportedFile audit_of(const json::object& row) {
  return audit_of(to_json_text(row));
}

TEST(Audit, FindsNothingInACleanRunOfVllmsClient) {
  EXPECT_EQ(all_findings(audit_of(clean_vllm())), "");
}

TEST(Audit, FindsRequestsThatNeverCompletedAndSaysWhyItMayBe) {
  json::object row = clean_vllm();
  row["request_rate"] = "inf";
  row["num_prompts"] = 3000;
  EXPECT_THAT(
      all_findings(audit_of(row)),
      testing::EndsWith("1200 of 3000 requests were completed (40.0 %)\n")
  );
  row["completed"] = 1003;
  EXPECT_THAT(all_findings(audit_of(row)), HasSubstr("1003 is just below 1024, a usual limit"));
}

TEST(Audit, FindsARateThatWasNotTheOneAskedFor) {
  json::object row = clean_vllm();
  row["request_rate"] = 12.0;
  EXPECT_THAT(
      all_findings(audit_of(row)), HasSubstr("rate: asked for 12 requests per second, at most")
  );
  row["request_rate"] = 8.0;
  const ImportedFile file = audit_of(row);
  EXPECT_TRUE(has_finding(&file.rows[0], "rate", Trust::kInvalid)) << all_findings(file);
}

TEST(Audit, FindsThroughputsThatAreNotTotalsByTheDuration) {
  json::object row = clean_vllm();
  row["output_throughput"] = 1010.0;
  EXPECT_THAT(
      all_findings(audit_of(row)),
      HasSubstr("contradiction: output_throughput is 1010.0000, its parts give 991.7355")
  );
}

TEST(Audit, FindsPercentilesThatDescend) {
  json::object row = clean_vllm();
  row["median_ttft_ms"] = 101.0;
  EXPECT_THAT(all_findings(audit_of(row)), HasSubstr("ttft: p50 is 101.00 and p99 is 100.00"));
}

TEST(Audit, WarnsOfP99OfFewRequests) {
  json::object row = clean_vllm();
  row["request_rate"] = "inf";
  row["num_prompts"] = row["completed"] = 120;
  row["request_throughput"] = 120 / 121.0;
  EXPECT_TRUE(has_finding(&audit_of(row).rows[0], "few_samples", Trust::kWarn));
}

TEST(Audit, WarnsOfAServerThatWasAskedForTooMuch) {
  json::object row = clean_vllm();
  row["duration"] = 150.0;
  row["request_throughput"] = 8.0;
  row["output_throughput"] = 800.0;
  row["total_token_throughput"] = 8800.0;
  row["p99_ttft_ms"] = 28000.0;
  row["mean_ttft_ms"] = 15000.0;
  row["median_ttft_ms"] = 14000.0;
  const ImportedFile file = audit_of(row);
  EXPECT_TRUE(has_finding(&file.rows[0], "overloaded", Trust::kWarn)) << all_findings(file);
  EXPECT_EQ(num_of(file, Trust::kInvalid), 0u) << all_findings(file);
}

TEST(Audit, ComparesSglangsConcurrencyWithItsOwnFigures) {
  json::object row = clean_vllm();
  for (const char* key : {"model_id", "num_prompts", "total_token_throughput"}) row.erase(key);
  row["dataset_name"] = "random";
  row["random_input_len"] = 1000;
  row["random_output_len"] = 100;
  row["random_range_ratio"] = 1.0;
  row["total_throughput"] = 1320000 / 121.0;
  row["mean_e2e_latency_ms"] = 941.0;
  row["concurrency"] = 1200 * 0.941 / 121.0;
  EXPECT_EQ(all_findings(audit_of(row)), "");
  row["concurrency"] = 20.0;
  EXPECT_THAT(all_findings(audit_of(row)), HasSubstr("littles_law"));
  row["concurrency"] = nullptr;
  row["random_output_len"] = 200;
  EXPECT_THAT(
      all_findings(audit_of(row)), HasSubstr("100 output tokens a request, 50.0 % of the 200")
  );
  // Lengths drawn at random have no single one to compare with.
  row["random_range_ratio"] = 0.0;
  EXPECT_EQ(all_findings(audit_of(row)), "");
}

TEST(Audit, ClearsWhatAnEarlierAuditSaid) {
  json::object row = clean_vllm();
  row["num_prompts"] = 3000;
  row["request_rate"] = "inf";
  ImportedFile file = audit_of(row);
  const size_t num = file.rows[0].summary.verdict.findings.size();
  audit(file);
  EXPECT_EQ(file.rows[0].summary.verdict.findings.size(), num);
}

}  // namespace
}  // namespace millrace::bench
