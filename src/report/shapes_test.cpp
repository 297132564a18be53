// The shapes of a report: text for rows that are made up here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "report/figures.h"
#include "report/report.h"
#include "report/report_fixture.h"

namespace millrace::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Distribution samples(double mean) {
  Distribution distribution;
  distribution.count = 100;
  distribution.mean = mean;
  distribution.std = mean / 4;
  distribution.min = mean / 2;
  distribution.max = mean * 3;
  distribution.sum = mean * 100;
  for (const double rank : {1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9}) {
    distribution.percentiles.push_back({.rank = rank, .value = mean * (0.5 + rank / 50)});
  }
  return distribution;
}

PointSummary full_row() {
  PointSummary row;
  row.plan.name = "concurrency 8";
  row.plan.framework = "millrace";
  row.plan.version = "0.1.0";
  row.plan.device = "7K83;A10";
  row.plan.backend = "openai";
  row.plan.model = "m/SmolLM2";
  row.plan.tokenizer = "m/tokenizer";
  row.plan.num_prompts = 101;
  row.plan.dataset = {.name = "random", .input_len = 32, .output_len = 1024, .hit_len = 0};
  row.plan.load = {.kind = LoadKind::kConcurrency, .max_concurrency = 8};
  row.started_unix_ns = 1'744'649'508'000'000'000;
  row.duration_s = 12.5;
  row.num_completed = 100;
  row.num_failed = 1;
  row.num_unfinished = 0;
  row.num_input_tokens = 3200;
  row.num_output_tokens = 102400;
  row.request_throughput = 8.0;
  row.input_throughput = 256.0;
  row.output_throughput = 8192.0;
  row.total_throughput = 8448.0;
  row.concurrency = 7.9;
  row.peak_output_throughput = 9000.0;
  row.peak_concurrency = 8;
  row[Metric::kTtft] = samples(21.0);
  row[Metric::kTpot] = samples(4.5);
  row[Metric::kItl] = samples(4.6);
  row[Metric::kE2e] = samples(4870.0);
  row[Metric::kQueueTime] = samples(1.0);
  row[Metric::kE2eScheduled] = samples(4871.0);
  row[Metric::kInputLen] = samples(32.0);
  row[Metric::kOutputLen] = samples(1024.0);
  return row;
}

std::vector<std::string> keys_of(const std::string& text) {
  const Result<json::value> value = parse_json(text);
  EXPECT_TRUE(value.ok()) << text;
  std::vector<std::string> keys;
  for (const json::key_value_pair& entry : value->as_object()) keys.emplace_back(entry.key());
  return keys;
}

TEST(Figures, MissingIsAWordAndNeverZero) {
  EXPECT_EQ(fixed(std::nullopt, 2, "-"), "-");
  EXPECT_EQ(fixed(std::numeric_limits<double>::quiet_NaN(), 2, "m"), "m");
  EXPECT_EQ(rounded_2(std::nullopt, "-"), "-");
  EXPECT_TRUE(number_or_null(std::nullopt).is_null());
  EXPECT_TRUE(number_or_null(std::numeric_limits<double>::infinity()).is_null());
}

TEST(Figures, RoundAsJqDoes) {
  EXPECT_EQ(rounded_2(20.199999, "-"), "20.2");
  EXPECT_EQ(rounded_2(715.0, "-"), "715");
  EXPECT_EQ(rounded_2(23.004, "-"), "23");
  EXPECT_EQ(rounded_2(0.27, "-"), "0.27");
  EXPECT_EQ(rounded_2(-0.001, "-"), "0");
  EXPECT_EQ(rounded_2(1.005, "-"), "1");  // 100.49999999999999 in binary, in jq too
  EXPECT_EQ(rounded_2(34792.333, "-"), "34792.33");
}

TEST(Figures, DatesAreUtcAndSurviveTheirYear) {
  EXPECT_EQ(compact_date(1'744'649'508'000'000'000), "20250414-165148");
  EXPECT_EQ(compact_date(0), "19700101-000000");
  EXPECT_EQ(compact_date(-1), "19691231-235959");
}

TEST(GridMarkdown, SaysErrorAndMissingApart) {
  PointSummary good = full_row();
  good.plan.framework = "wnr";
  good.plan.load.max_concurrency = 4;
  PointSummary failed = good;
  failed.plan.framework = "vllm";
  failed.metrics = {};
  failed.num_completed = 0;
  PointSummary other = good;
  other.plan.dataset.input_len = 512;
  const std::vector<PointSummary> rows = {other, good, failed};
  const std::string text = grid_markdown(rows, {.title = "Grid"});
  EXPECT_EQ(
      text,
      "# Grid\n\n\n## m/SmolLM2\n\n"
      "|Framework  |Version    |CPU;GPU    |B/I/H/O        |Avg TTFT (s)   |Avg E2E (s)    |RPS    "
      "|TPS        |\n"
      "|-          |-          |-          |-              |-              |-              |-      "
      "|-          |\n"
      "|vllm       |0.1.0      |7K83;A10   |4/32/0/1024    |e              |e              |e      "
      "|e          |\n"
      "|wnr        |0.1.0      |7K83;A10   |4/32/0/1024    |0.021          |4.870          |8.00   "
      "|8448.00    |\n"
      "|vllm       |0.1.0      |7K83;A10   |4/512/0/1024   |m              |m              |m      "
      "|m          |\n"
      "|wnr        |0.1.0      |7K83;A10   |4/512/0/1024   |0.021          |4.870          |8.00   "
      "|8448.00    |\n"
  );
}

TEST(GridMarkdown, SortsNumbersAsNumbersAndKeepsPublishedFrameworkOrder) {
  std::vector<PointSummary> rows;
  for (const std::string framework : {"other", "wnr", "vllm", "sglang", "trtllm"}) {
    for (const int64_t places : {16, 2}) {
      PointSummary row = full_row();
      row.plan.framework = framework;
      row.plan.load.max_concurrency = places;
      rows.push_back(row);
    }
  }
  const std::string text = grid_markdown(rows, {});
  std::vector<std::string> order;
  for (const std::string_view line : split_lines(text)) {
    if (line.find("/32/0/1024") == std::string_view::npos) continue;
    order.push_back(
        std::string(line.substr(1, line.find(' ') - 1)) + ' ' +
        std::string(line.substr(37, line.find('/', 37) - 37))
    );
  }
  EXPECT_THAT(
      order,
      ElementsAre(
          "trtllm 2",
          "sglang 2",
          "vllm 2",
          "wnr 2",
          "other 2",
          "trtllm 16",
          "sglang 16",
          "vllm 16",
          "wnr 16",
          "other 16"
      )
  );
}

TEST(GridMarkdown, WidensAColumnForAllItsCells) {
  PointSummary row = full_row();
  row.plan.version = "0.1.0-long-version";
  const std::string text = grid_markdown(std::vector<PointSummary>{row}, {});
  EXPECT_THAT(text, HasSubstr("|Framework  |Version            |CPU;GPU    |"));
  EXPECT_THAT(text, HasSubstr("|millrace   |0.1.0-long-version |7K83;A10   |"));
}

TEST(GridMarkdown, SaysBelowTheTableWhichRowIsNotToBeTrusted) {
  PointSummary row = full_row();
  row.verdict.findings = {{Trust::kInvalid, "output_length", "840 of 1024 | tokens"}};
  const std::vector<PointSummary> rows = {full_row(), row};
  EXPECT_THAT(grid_markdown(rows, {}), HasSubstr("|\n\n> row 2 invalid: 840 of 1024 \\| tokens\n"));
  EXPECT_THAT(grid_markdown(rows, {.shows_verdicts = false}), Not(HasSubstr("> row")));
}

TEST(GuidellmMarkdown, NamesModesAndSortsByCompletedRate) {
  PointSummary fast = full_row(), poisson = full_row(), burst = full_row(), one = full_row();
  fast.plan.name = poisson.plan.name = burst.plan.name = one.plan.name = "";
  fast.plan.load = {.kind = LoadKind::kConstant, .request_rate = 6.614};
  fast.request_throughput = 6.21;
  poisson.plan.load = {.kind = LoadKind::kGamma, .request_rate = 2.6};
  poisson.request_throughput = 2.64;
  burst.plan.load = {.kind = LoadKind::kBurst, .max_concurrency = 512};
  burst.request_throughput = 6.61;
  one.plan.load = {.kind = LoadKind::kConcurrency, .max_concurrency = 1};
  one.request_throughput = 0.6;
  one.output_throughput.reset();
  one.plan.device = fast.plan.device = poisson.plan.device = burst.plan.device = "2 x A100 80GB";
  const std::vector<PointSummary> rows = {burst, fast, one, poisson};
  EXPECT_EQ(
      guidellm_markdown(rows, {.title = "LLM-Inference"}),
      "# LLM-Inference\n\n"
      "- **m/SmolLM2**, **2**张**A100 80GB**, **millrace**, prompt_tokens=32, "
      "generated_tokens=1024\n\n"
      "| Benchmark | Requests per Second | Request Latency | Time to First Token | Inter Token "
      "Latency | Output Token Throughput |\n"
      "| :---: | :---: | :---: | :---: | :---: | :---: |\n"
      "| synchronous | 0.60 req/sec | 4.87 sec | 21.00 ms | 4.60 ms | - |\n"
      "| asynchronous@2.60 req/sec | 2.64 req/sec | 4.87 sec | 21.00 ms | 4.60 ms | 8192.00 "
      "tokens/sec |\n"
      "| asynchronous@6.61 req/sec | 6.21 req/sec | 4.87 sec | 21.00 ms | 4.60 ms | 8192.00 "
      "tokens/sec |\n"
      "| throughput | 6.61 req/sec | 4.87 sec | 21.00 ms | 4.60 ms | 8192.00 tokens/sec |\n"
  );
}

TEST(GuidellmMarkdown, OffersTheThreeOtherTables) {
  const std::vector<PointSummary> rows = {full_row()};
  const std::string text = guidellm_markdown(rows, {.shows_all_tables = true});
  EXPECT_THAT(
      text, HasSubstr("| concurrent@8 | 100/101 | 1/101 | 12.50 sec | 16:51:48 | 16:52:00 |\n")
  );
  EXPECT_THAT(
      text, HasSubstr("| concurrent@8 | 32.00 | 16.6, 19.2, 48.0, 76.8, 79.4 | 1024.00 | ")
  );
  EXPECT_THAT(
      text, HasSubstr("| concurrent@8 | 2.53, 2.92, 3.41, 7.30, 11.20, 11.69, 12.08 | 10.9, ")
  );
  EXPECT_THAT(
      text, HasSubstr("**Performance Summary by Benchmark**\n\n| Benchmark | Requests per")
  );
}

TEST(ConcurrencyMarkdown, SpellsWordsRightUnlessTyposAreAskedFor) {
  PointSummary row = full_row();
  row.plan.load.max_concurrency = 16;
  row.request_throughput = 0.9;
  row[Metric::kTpot]->mean = 20.2;
  row[Metric::kTtft].reset();
  const std::vector<PointSummary> rows = {row, full_row()};
  const std::string text = concurrency_markdown(rows, {});
  EXPECT_THAT(text, HasSubstr("# millrace 0.1.0\n\n## Benchmark Result (ISL:OSL=32:1024)\n\n"));
  EXPECT_THAT(text, HasSubstr("| Request Throughput (req/s) |"));
  EXPECT_THAT(text, HasSubstr("| P99 E2E Latency (ms) |"));
  EXPECT_THAT(
      text,
      HasSubstr("| 8 | 8 | 8192 | 4870 | 12077.6 | 21 | 52.08 | 4.5 | 11.16 |\n"
                "| 16 | 0.9 | 8192 | 4870 | 12077.6 | - | - | 20.2 | 11.16 |\n")
  );
  EXPECT_THAT(
      concurrency_markdown(rows, {.keeps_typos = true}),
      HasSubstr(
          "| Reqeuest Throughput (req/s) | Output Token Throughput (tok/s) | Mean E2E Lantency"
      )
  );
}

TEST(SglangConsole, HasTheLayoutOfItsTool) {
  const std::string text = sglang_console(full_row());
  EXPECT_TRUE(
      text.starts_with("\n============ Serving Benchmark Result ============\n"
                       "Backend:                                 openai    \n"
                       "Traffic request rate:                    inf       \n"
                       "Max request concurrency:                 8         \n"
                       "Successful requests:                     100       \n"
                       "Benchmark duration (s):                  12.50     \n")
  ) << text;
  EXPECT_THAT(text, HasSubstr("Total generated tokens (retokenized):    -         \n"));
  EXPECT_THAT(text, HasSubstr("Peak concurrent requests:                8         \n"));
  EXPECT_THAT(
      text,
      HasSubstr("----------------End-to-End Latency----------------\n"
                "Mean E2E Latency (ms):                   4870.00   \n"
                "Median E2E Latency (ms):                 7305.00   \n"
                "P90 E2E Latency (ms):                    11201.00  \n")
  );
  EXPECT_THAT(text, HasSubstr("-----Time per Output Token (excl. 1st token)------\n"));
  EXPECT_TRUE(
      text.ends_with("Max ITL (ms):                            13.80     \n"
                     "==================================================\n")
  );
}

TEST(SglangJson, HasTheKeysOfItsToolInOrder) {
  PointSummary row = full_row();
  row.plan.load.request_rate = 4.0;
  const std::string text = sglang_json(row, nullptr);
  EXPECT_THAT(
      keys_of(text),
      ElementsAre(
          "tag",
          "backend",
          "dataset_name",
          "request_rate",
          "max_concurrency",
          "sharegpt_output_len",
          "random_input_len",
          "random_output_len",
          "random_range_ratio",
          "server_info",
          "duration",
          "completed",
          "total_input_tokens",
          "total_input_text_tokens",
          "total_input_vision_tokens",
          "total_output_tokens",
          "total_output_tokens_retokenized",
          "request_throughput",
          "input_throughput",
          "output_throughput",
          "total_throughput",
          "mean_e2e_latency_ms",
          "median_e2e_latency_ms",
          "std_e2e_latency_ms",
          "p90_e2e_latency_ms",
          "p95_e2e_latency_ms",
          "p99_e2e_latency_ms",
          "mean_ttft_ms",
          "median_ttft_ms",
          "std_ttft_ms",
          "p90_ttft_ms",
          "p95_ttft_ms",
          "p99_ttft_ms",
          "mean_tpot_ms",
          "median_tpot_ms",
          "std_tpot_ms",
          "p90_tpot_ms",
          "p95_tpot_ms",
          "p99_tpot_ms",
          "mean_itl_ms",
          "median_itl_ms",
          "std_itl_ms",
          "p90_itl_ms",
          "p95_itl_ms",
          "p99_itl_ms",
          "concurrency",
          "accept_length",
          "max_output_tokens_per_s",
          "max_concurrent_requests"
      )
  );
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

PointRecord two_requests() {
  PointRecord record;
  RequestRecord good;
  good.outcome = Outcome::kCompleted;
  good.scheduled = std::chrono::milliseconds(5);
  good.sent = std::chrono::milliseconds(10);
  good.first_chunk = std::chrono::milliseconds(20);
  good.first_text = std::chrono::milliseconds(30);
  good.last_chunk = std::chrono::milliseconds(50);
  good.ended = std::chrono::milliseconds(60);
  good.num_prompt_tokens_planned = 7;
  good.num_output_tokens = 2;
  for (const int64_t at : {20'000'000, 30'000'000, 50'000'000}) {
    good.chunks.push_back(Chunk::make(Nanos(at), 1));
  }
  good.text = "a\"b";
  RequestRecord failed;
  failed.outcome = Outcome::kFailed;
  failed.error = "HTTP 500";
  RequestRecord warmup = good;
  warmup.phase = Phase::kWarmup;
  record.requests = {warmup, good, failed};
  return record;
}

TEST(VllmJson, HasDetailsOfMeasuredRequestsAlone) {
  const PointRecord record = two_requests();
  const std::string text = vllm_json(full_row(), &record);
  EXPECT_THAT(
      text, HasSubstr("\"input_lens\": [7, 0], \"output_lens\": [2, 0], \"ttfts\": [0.01, 0]")
  );
  EXPECT_THAT(text, HasSubstr("\"itls\": [[0.01, 0.02], []], \"latencies\": [0.04, 0]"));
  EXPECT_THAT(text, HasSubstr("\"queue_times\": [0.005, 0]"));
  EXPECT_THAT(
      text, HasSubstr("\"generated_texts\": [\"a\\\"b\", \"\"], \"errors\": [\"\", \"HTTP 500\"]")
  );
  EXPECT_THAT(text, Not(HasSubstr("e2el_including_client_queue")));
  PointRecord whole = record;
  for (RequestRecord& request : whole.requests) {
    request.first_chunk = request.first_text = request.last_chunk = std::nullopt;
  }
  EXPECT_THAT(
      vllm_json(full_row(), &whole),
      HasSubstr("\"output_lens\": [2, 0], \"ttfts\": [0, 0], \"itls\": [[], []], "
                "\"latencies\": [0.05, 0]")
  );
  EXPECT_THAT(
      sglang_json(full_row(), &whole), HasSubstr("\"ttfts\": [0.05, 0], \"itls\": [[], []]")
  );
  EXPECT_THAT(
      sglang_json(full_row(), &record), HasSubstr("\"ttfts\": [0.02, 0], \"itls\": [[0.02], []]")
  );
}

TEST(VllmJson, SaysNullForWhatIsNotKnown) {
  const std::string text = vllm_json(PointSummary(), nullptr);
  EXPECT_THAT(text, HasSubstr("\"duration\": null, \"completed\": null"));
  EXPECT_THAT(text, HasSubstr("\"request_rate\": \"inf\""));
  EXPECT_THAT(text, HasSubstr("\"mean_ttft_ms\": null, \"median_ttft_ms\": null"));
}

TEST(GuidellmJson, HasMetricsByStatusAndRequestsByOutcome) {
  const std::vector<PointSummary> rows = {full_row()};
  const std::vector<PointRecord> records = {two_requests()};
  const Result<json::value> value = parse_json(guidellm_json(rows, records));
  ASSERT_TRUE(value.ok());
  const json::object& benchmark = value->at("benchmarks").at(0).as_object();
  EXPECT_EQ(benchmark.at("config").at("strategy").at("type_").as_string(), "concurrent");
  const json::value& metrics = benchmark.at("metrics");
  EXPECT_EQ(metrics.at("request_latency").at("successful").at("mean").to_number<double>(), 4.87);
  EXPECT_EQ(
      metrics.at("time_to_first_token_ms").at("successful").at("percentiles").as_object().size(),
      11u
  );
  EXPECT_EQ(benchmark.at("requests").at("successful").as_array().size(), 1u);
  EXPECT_EQ(benchmark.at("requests").at("errored").as_array().size(), 1u);
}

TEST(MarkdownTable, ShowsIntervalsAndVerdicts) {
  PointSummary row = full_row();
  row.request_throughput_interval = {.low = 7.6, .high = 8.4};
  row[Metric::kTtft]->mean_interval = {.low = 20.5, .high = 21.5};
  row.verdict.findings = {{Trust::kWarn, "few_samples", "p99 of 100 requests"}};
  const std::vector<PointSummary> rows = {row, PointSummary()};
  const std::string text = markdown_table(rows, {});
  EXPECT_THAT(
      text,
      HasSubstr("| 1 | millrace 0.1.0 | concurrency 8 | 100 of 101 | 8.00 ±0.40 | 8192.00 | "
                "21.00 ±0.50 | 52.08 |")
  );
  EXPECT_THAT(text, HasSubstr("| 11.16 | 4870.00 | 12077.60 | warn |\n"));
  EXPECT_THAT(text, HasSubstr("| 2 | - | burst | - | - | - | - |"));
  EXPECT_THAT(text, HasSubstr("\n> row 1 warn: p99 of 100 requests\n"));
  EXPECT_THAT(markdown_table(rows, {.shows_verdicts = false}), Not(HasSubstr("Verdict")));
}

TEST(Csv, QuotesWhatHoldsAComma) {
  PointSummary row = full_row();
  row.plan.name = "a, \"b\"";
  const std::string text = csv(std::vector<PointSummary>{row, PointSummary()});
  const std::vector<std::string_view> lines = split_lines(text);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[0].starts_with("name,framework,version,")) << lines[0];
  EXPECT_TRUE(lines[1].starts_with("\"a, \"\"b\"\"\",millrace,0.1.0,")) << lines[1];
  const auto num_commas = [](std::string_view line) {
    return std::count(line.begin(), line.end(), ',');
  };
  EXPECT_EQ(num_commas(lines[0]), num_commas(lines[2]));
  EXPECT_EQ(num_commas(lines[0]) + 1, num_commas(lines[1]));
}

TEST(SummaryJson, SaysEveryFigureAndTheVerdict) {
  PointSummary row = full_row();
  row.verdict.findings = {{Trust::kInvalid, "output_length", "short"}};
  row.failures = {{FailureKind::kTimeout, 1}};
  const Result<json::value> value = parse_json(summary_json(row));
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->at("plan").at("load").at("request_rate").as_string(), "inf");
  EXPECT_EQ(
      value->at("metrics").at("ttft").at("percentiles").at("99").to_number<double>(), 21.0 * 2.48
  );
  EXPECT_TRUE(value->at("metrics").at("icl").is_null());
  EXPECT_EQ(value->at("failures").at("timeout").to_number<int64_t>(), 1);
  EXPECT_EQ(value->at("verdict").at("trust").as_string(), "invalid");
  EXPECT_EQ(value->at("verdict").at("findings").at(0).at("code").as_string(), "output_length");
}

TEST(Shape, IsKnownByItsNamesAndRefusedByThem) {
  const Result<Shape> grid = parse_shape("biho");
  ASSERT_TRUE(grid.ok());
  EXPECT_EQ(*grid, Shape::kGrid);
  EXPECT_EQ(formulas_of(Shape::kGuidellm), Formulas::kGuidellm01);
  EXPECT_EQ(formulas_of(Shape::kConcurrency), Formulas::kVllm);
  const Result<Shape> none = parse_shape("pie");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr("'pie' is no shape of a report: expected grid"));
}

}  // namespace
}  // namespace millrace::bench
