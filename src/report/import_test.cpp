// Files of others' tools, and text that is no file of anybody's.
#include "report/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "report/figures.h"
#include "report/report.h"
#include "report/report_fixture.h"
#include "results/record_file.h"
#include "results/record_fixture.h"

namespace millrace::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ImportedFile imported(const std::string& text) {
  Result<ImportedFile> file = import_results(text, "made");
  EXPECT_TRUE(file.ok()) << file.error().message;
  return file.ok() ? *std::move(file) : ImportedFile();
}

std::string error_of(const std::string& text) {
  const Result<ImportedFile> file = import_results(text, "made");
  return file.ok() ? "none" : file.error().message;
}

std::string golden(const std::string& name) {
  Result<std::string> text = read_file(MILLRACE_SOURCE_DIR "/tests/golden/client_results/" + name);
  EXPECT_TRUE(text.ok()) << name;
  return text.ok() ? *text : "";
}

// What vLLM's client printed of a run is what is printed of the JSON it saved.
TEST(Import, VllmsJsonPrintsAsVllmPrintedIt) {
  const ImportedFile file = imported(golden("vllm.json"));
  EXPECT_EQ(file.format, ResultFormat::kVllmJson);
  ASSERT_EQ(file.rows.size(), 1u);
  EXPECT_EQ(vllm_console(file.rows[0].summary), golden("vllm_console.txt"));
}

TEST(Import, VllmsJsonIsWrittenWithTheKeysThatVllmWrites) {
  const Result<json::value> theirs = parse_json(golden("vllm.json"));
  ASSERT_TRUE(theirs.ok());
  const ImportedFile file = imported(golden("vllm.json"));
  const Result<json::value> ours = parse_json(vllm_json(file.rows[0].summary, nullptr));
  ASSERT_TRUE(ours.ok());
  std::vector<std::string> their_keys, our_keys;
  for (const json::key_value_pair& entry : theirs->as_object()) {
    // Of the requests, which are not imported.
    if (entry.key() == "latencies" || entry.key() == "queue_times") continue;
    their_keys.emplace_back(entry.key());
    EXPECT_EQ(to_json_text(ours->at(entry.key())), to_json_text(entry.value())) << entry.key();
  }
  for (const json::key_value_pair& entry : ours->as_object()) our_keys.emplace_back(entry.key());
  EXPECT_EQ(our_keys, their_keys);
}

TEST(Import, ReadsSglangsLinesWithTheInfinityThatPythonWrites) {
  const std::string text = golden("sglang.jsonl");
  ASSERT_THAT(text, HasSubstr("Infinity"));
  const ImportedFile file = imported(text + text);
  EXPECT_EQ(file.format, ResultFormat::kSglangJsonl);
  ASSERT_EQ(file.rows.size(), 2u);
  const PointSummary& row = file.rows[1].summary;
  EXPECT_EQ(file.rows[1].line, 2);
  EXPECT_EQ(row.plan.load.kind, LoadKind::kConcurrency);
  EXPECT_EQ(row.plan.load.max_concurrency, 4);
  EXPECT_EQ(row.plan.dataset.input_len, 32);
  EXPECT_EQ(row.num_completed, 20);
  EXPECT_GT(*mean_of(row, Metric::kE2e), *mean_of(row, Metric::kTtft));
  EXPECT_TRUE(row.concurrency.has_value());
  // 0.4.6 does not save p90.
  EXPECT_EQ(percentile_of(row, Metric::kTtft, 90.0), std::nullopt);
  EXPECT_TRUE(percentile_of(row, Metric::kTtft, 99.0).has_value());
}

TEST(Import, ReadsASweepOfGuidellm) {
  const ImportedFile file = imported(golden("guidellm.json"));
  EXPECT_EQ(file.format, ResultFormat::kGuidellmJson);
  ASSERT_EQ(file.rows.size(), 4u);
  std::vector<LoadKind> kinds;
  for (const ImportedRow& row : file.rows) kinds.push_back(row.summary.plan.load.kind);
  EXPECT_THAT(
      kinds,
      ElementsAre(
          LoadKind::kConcurrency, LoadKind::kBurst, LoadKind::kConstant, LoadKind::kConstant
      )
  );
  const PointSummary& row = file.rows[2].summary;
  EXPECT_EQ(row.plan.dataset.input_len, 32);
  EXPECT_EQ(row.plan.dataset.output_len, 16);
  const Result<json::value> report = parse_json(golden("guidellm.json"));
  ASSERT_TRUE(report.ok());
  const json::value& metrics = report->at("benchmarks").at(2).at("metrics");
  const auto theirs = [&](const char* metric, const char* figure) {
    return metrics.at(metric).at("successful").at(figure).to_number<double>();
  };
  EXPECT_EQ(mean_of(row, Metric::kTtft), theirs("time_to_first_token_ms", "mean"));
  EXPECT_EQ(mean_of(row, Metric::kItl), theirs("inter_token_latency_ms", "mean"));
  EXPECT_EQ(std_of(row, Metric::kTtft), theirs("time_to_first_token_ms", "std_dev"));
  EXPECT_EQ(mean_of(row, Metric::kE2e), 1e3 * theirs("request_latency", "mean"));
  EXPECT_EQ(row.output_throughput, theirs("output_tokens_per_second", "mean"));
  EXPECT_EQ(row[Metric::kTtft]->count, *row.num_completed);
  EXPECT_TRUE(min_of(row, Metric::kTtft).has_value());
}

// Asked for 32 prompt tokens, it sent more (the chat template's are among them), and said nothing.
TEST(Import, AuditFindsThatGuidellmsPromptsAreLonger) {
  ImportedFile file = imported(golden("guidellm.json"));
  audit(file);
  EXPECT_EQ(num_with(file, "input_length", Trust::kWarn), 4u);
}

TEST(Import, ReadsGuidellmsFirstReports) {
  const ImportedFile file = imported(R"({
    "benchmarks": [{
      "benchmarks": [
        {"mode": "synchronous", "rate": null, "results": [], "errors": [], "request_count": 71,
         "error_count": 0, "duration": 118.6, "completed_request_rate": 0.5987,
         "request_latency": 1.67,
         "request_latency_percentiles": [1.1, 1.2, 1.3, 1.7, 1.8, 1.9, 2.0],
         "time_to_first_token": 108.93,
         "time_to_first_token_percentiles": [0.1, 0.1, 0.1, 0.1, 0.1, 0.2, 0.3],
         "inter_token_latency": 13.15, "output_token_throughput": 71.04, "output_token": 118.6,
         "output_token_percentiles": [90, 95, 120, 128, 128]},
        {"mode": "asynchronous", "rate": 2.6, "request_count": 3, "error_count": 1,
         "completed_request_rate": 2.64}
      ],
      "args": {"model": "Qwen2", "data": "prompt_tokens=512,generated_tokens=128"}
    }]
  })");
  ASSERT_EQ(file.rows.size(), 2u);
  const PointSummary& row = file.rows[0].summary;
  EXPECT_EQ(row.formulas, Formulas::kGuidellm01);
  EXPECT_EQ(row.plan.model, "Qwen2");
  EXPECT_EQ(row.num_completed, 71);
  EXPECT_EQ(mean_of(row, Metric::kE2e), 1670.0);
  EXPECT_EQ(percentile_of(row, Metric::kE2e, 50.0), 1700.0);
  EXPECT_EQ(mean_of(row, Metric::kTtft), 108.93);
  EXPECT_EQ(percentile_of(row, Metric::kTtft, 99.0), 300.0);
  EXPECT_EQ(percentile_of(row, Metric::kOutputLen, 50.0), 120.0);
  EXPECT_EQ(file.rows[1].summary.plan.load.request_rate, 2.6);
}

TEST(Import, ReadsWhatWeWriteInGuidellmsShape) {
  const ImportedFile theirs = imported(golden("guidellm.json"));
  const ImportedFile ours = imported(guidellm_json(summaries(theirs), {}));
  ASSERT_EQ(ours.rows.size(), theirs.rows.size());
  for (size_t i = 0; i < ours.rows.size(); ++i) {
    const PointSummary& a = ours.rows[i].summary;
    const PointSummary& b = theirs.rows[i].summary;
    EXPECT_EQ(a.plan.load.kind, b.plan.load.kind);
    EXPECT_EQ(a.request_throughput, b.request_throughput);
    EXPECT_DOUBLE_EQ(*mean_of(a, Metric::kE2e), *mean_of(b, Metric::kE2e));
    EXPECT_DOUBLE_EQ(
        *percentile_of(a, Metric::kTtft, 99.9), *percentile_of(b, Metric::kTtft, 99.9)
    );
  }
}

TEST(Import, ReadsOurOwnRecords) {
  const PointRecord record = make_closed_loop(4, 40, {});
  const ImportedFile file = imported(to_jsonl(record) + to_jsonl(record));
  EXPECT_EQ(file.format, ResultFormat::kMillrace);
  ASSERT_EQ(file.rows.size(), 2u);
  EXPECT_EQ(file.rows[0].line, 1);
  EXPECT_EQ(file.rows[1].line, 43) << "behind the first one's end";
  EXPECT_EQ(file.rows[1].summary.num_completed, 40);
}

TEST(Import, TakesAResultOverSeveralLinesAndAnArrayOfThem) {
  const std::string one = "{\n  \"model_id\": \"m\",\n  \"request_throughput\": 2.5\n}\n";
  EXPECT_EQ(imported(one).rows.size(), 1u);
  EXPECT_EQ(imported("\xEF\xBB\xBF \n[" + one + "," + one + "]").rows.size(), 2u);
}

TEST(Import, LeavesTextWithinStringsAlone) {
  const ImportedFile file =
      imported(R"({"model_id": "a \"NaN\" -Infinity", "request_throughput": NaN})");
  ASSERT_EQ(file.rows.size(), 1u);
  EXPECT_EQ(file.rows[0].summary.plan.model, "a \"NaN\" -Infinity");
  EXPECT_EQ(file.rows[0].summary.request_throughput, std::nullopt);
}

TEST(Import, IgnoresHeadingsWithinCode) {
  const ImportedFile file = imported(
      "# Server\n```yaml\n# a comment\n```\n## Benchmark Result (ISL:OSL=7:9)\n"
      "| Concurrency | a | b | c | d | e | f | g | h |\n|:-:|-|-|-|-|-|-|-|-|\n"
      "| 2 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 |\n"
  );
  ASSERT_EQ(file.rows.size(), 1u);
  EXPECT_EQ(file.rows[0].summary.plan.framework, "Server");
  EXPECT_EQ(file.rows[0].section, "Server, ISL:OSL=7:9");
  EXPECT_EQ(file.rows[0].summary.plan.dataset.output_len, 9);
  EXPECT_EQ(file.rows[0].line, 8);
}

TEST(Import, SaysWhichLineIsWrongAndWhatWasExpected) {
  EXPECT_EQ(error_of(""), "made: empty: expected results");
  EXPECT_THAT(
      error_of("hello\nworld\n"), HasSubstr("made: no results in 2 lines: expected JSON of")
  );
  EXPECT_THAT(
      error_of("{\"a\": 1}"), HasSubstr("made: line 1: a JSON object of no tool that is known")
  );
  EXPECT_THAT(error_of("{\"a\": "), HasSubstr("made: not valid JSON at byte"));
  EXPECT_THAT(error_of("[]"), HasSubstr("an empty array"));
  EXPECT_THAT(error_of("[1]"), HasSubstr("expected a JSON object"));
  const std::string good = "{\"model_id\": \"m\", \"request_throughput\": 1}\n";
  EXPECT_THAT(error_of(good + "\n{oops}\n"), HasSubstr("made: line 3: not valid JSON"));
  EXPECT_EQ(
      error_of(good + "{\"model_id\": \"m\", \"duration\": \"long\"}\n"),
      "made: line 2: 'duration' is \"long\": expected a number"
  );
  EXPECT_THAT(
      error_of(good + "{\"model_id\": \"m\", \"completed\": 1.5}\n"),
      HasSubstr("line 2: 'completed' is 1.5: expected a whole number")
  );
  EXPECT_THAT(
      error_of(good + "{\"dataset_name\": \"r\"}\n"), HasSubstr("line 2: results of another tool")
  );
  EXPECT_THAT(error_of("{\"benchmarks\": 3}"), HasSubstr("'benchmarks' must be an array"));
  EXPECT_THAT(error_of("{\"benchmarks\": [{}]}"), HasSubstr("benchmarks[0] is no benchmark"));
  EXPECT_THAT(error_of("{\"benchmarks\": []}"), HasSubstr("'benchmarks' is empty"));
}

TEST(Import, SaysWhichCellOfATableIsWrong) {
  const std::string grid = "|F|V|D|B/I/H/O|T|E|R|S|\n|-|-|-|-|-|-|-|-|\n";
  EXPECT_THAT(
      error_of(grid + "|a|b|c|1/2/3|1|2|3|4|\n"), HasSubstr("made, line 3: B/I/H/O is '1/2/3'")
  );
  EXPECT_THAT(error_of(grid + "|a|b|c|1/2/3/4|1|2|3|x|\n"), HasSubstr("line 3: 'x' is no figure"));
  EXPECT_THAT(error_of(grid + "|a|b|c|1/2/3/4|e|e|e|4|\n"), HasSubstr("line 3: 'e' is no figure"));
  EXPECT_THAT(error_of(grid + "|a|b|\n"), HasSubstr("line 3: 2 cells: expected 8"));
  EXPECT_THAT(
      error_of(grid + "|a|b|c|1/2/3/99999999999999999999|1|2|3|4|\n"),
      HasSubstr("expected four counts")
  );
  const std::string sweep = "| Benchmark | Requests per Second | a | b | c | d |\n|-|-|-|-|-|-|\n";
  EXPECT_THAT(
      error_of(sweep + "| x@y | 1 req/sec | 1 sec | 1 ms | 1 ms | 1 tokens/sec |\n"),
      HasSubstr("line 3: 'x@y' has no rate")
  );
  EXPECT_THAT(
      error_of(sweep + "| synchronous | 1 req/sec | 1 ms | 1 ms | 1 ms | 1 tokens/sec |\n"),
      HasSubstr("line 3: '1 ms' is no figure: expected a number of sec")
  );
  EXPECT_THAT(
      error_of(grid + "|a|b|c|1/2/3/4|1|2|3|4|\n\n" + sweep),
      HasSubstr("line 5: a table of another kind")
  );
}

// Nothing that a file holds may crash the reader: every golden, cut and with bytes changed.
TEST(Import, SurvivesFilesThatAreCutOrChanged) {
  for (const std::string name : {"vllm.json", "sglang.jsonl", "guidellm.json"}) {
    std::string text = golden(name);
    const size_t step = std::max<size_t>(text.size() / 60, 1);
    for (size_t at = 0; at < text.size(); at += step) {
      (void)import_results(std::string_view(text).substr(0, at), name);
      const char kept = text[at];
      for (const char c : {'"', '{', ']', '-', 'I', '9', '\n'}) {
        text[at] = c;
        if (Result<ImportedFile> file = import_results(text, name)) {
          audit(*file);
          (void)audit_markdown(*file, name);
        }
      }
      text[at] = kept;
    }
  }
}

}  // namespace
}  // namespace millrace::bench
