// The published tables themselves: read and printed again they are the same lines, and the audit
// finds what is wrong with them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "report/import.h"
#include "report/report.h"
#include "report/report_fixture.h"

namespace millrace::bench {
namespace {

// The published tables lie beside the repository; without them their tests are skipped.
class PublishedTables : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kFolder)) {
      GTEST_SKIP() << kFolder << " is not there: the published tables are needed";
    }
  }

  std::string text_of(const std::string& name) {
    Result<std::string> text = read_file(kFolder + "/" + name);
    EXPECT_TRUE(text.ok()) << name;
    return text.ok() ? *text : "";
  }

  ImportedFile imported(const std::string& name) {
    Result<ImportedFile> file = import_results(text_of(name), name);
    EXPECT_TRUE(file.ok()) << file.error().message;
    return file.ok() ? *std::move(file) : ImportedFile();
  }

  ImportedFile audited(const std::string& name) {
    ImportedFile file = imported(name);
    audit(file);
    return file;
  }

 private:
  const std::string kFolder = MILLRACE_SOURCE_DIR "/../shared/data/published";
};

const ReportOptions kAsPublished = {.keeps_typos = true, .shows_verdicts = false};

std::vector<std::string_view> table_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  for (const std::string_view line : split_lines(text)) {
    if (line.starts_with('|')) lines.push_back(line);
  }
  return lines;
}

TEST_F(PublishedTables, GridComesBackByteForByte) {
  ReportOptions options = kAsPublished;
  options.title = "各LLM框架性能对比";
  EXPECT_EQ(grid_markdown(summaries(imported("grid.md")), options), text_of("grid.md"));
}

TEST_F(PublishedTables, ConcurrencyComesBackLineByLine) {
  const std::string published = text_of("concurrency.md");
  const std::string printed =
      concurrency_markdown(summaries(imported("concurrency.md")), kAsPublished);
  EXPECT_EQ(table_lines(printed), table_lines(published));
  const std::vector<std::string_view> lines = split_lines(printed);
  const std::set<std::string_view> published_lines = [&] {
    const std::vector<std::string_view> all = split_lines(published);
    return std::set<std::string_view>(all.begin(), all.end());
  }();
  for (const std::string_view line : lines) EXPECT_TRUE(published_lines.contains(line)) << line;
}

// Of the published sweep, three lines have lost or gained a space, and rows of zeros and one other
// do not stand where their completed rate puts them.
TEST_F(PublishedTables, SweepComesBackButForWhatWasMistyped) {
  const std::string published = text_of("sweep.md");
  const std::string printed = guidellm_markdown(summaries(imported("sweep.md")), kAsPublished);
  const std::vector<std::string_view> ours = table_lines(printed), theirs = table_lines(published);
  ASSERT_EQ(ours.size(), theirs.size());
  const std::multiset<std::string_view> our_set(ours.begin(), ours.end());
  std::vector<std::string_view> not_ours;
  size_t num_same_place = 0;
  for (size_t i = 0; i < theirs.size(); ++i) {
    if (!our_set.contains(theirs[i])) not_ours.push_back(theirs[i]);
    if (ours[i] == theirs[i]) ++num_same_place;
  }
  EXPECT_EQ(
      not_ours,
      (std::vector<std::string_view>{
          "| asynchronous@1.14 req/sec | 1.02 req/sec | 13.67sec | 373.19 ms | 104.54 ms | 129.41 "
          "tokens/sec |",
          "| asynchronous@9.30 req/sec | 7.16 req/sec | 27.42 sec | 469.00 ms | 213.92 ms | 901.59 "
          " tokens/sec |",
          "| asynchronous@10.58 req/sec | 9.26 req/sec | 27.67 sec | 3097.94 ms |192.70 ms | "
          "1170.20 tokens/sec |",
      })
  );
  EXPECT_GE(num_same_place, theirs.size() - 16);
  EXPECT_NE(
      printed.find("- **Qwen2-72B-Instruct**, **4**张**A100 80GB**, **vLLM**, "
                   "prompt_tokens=512, generated_tokens=128\n"),
      std::string::npos
  );
}

// At OSL 1000 the three Dynamo deployments made about 830 tokens a request, vLLM exactly 1000.
TEST_F(PublishedTables, AuditFindsTheOutputLengthThatWasNotReached) {
  const ImportedFile file = audited("concurrency.md");
  ASSERT_EQ(file.rows.size(), 160u);
  for (const ImportedRow& row : file.rows) {
    const bool is_short = row.summary.plan.framework.starts_with("Dynamo") &&
                          row.summary.plan.dataset.output_len == 1000;
    EXPECT_EQ(has_finding(&row, "output_length", Trust::kInvalid), is_short) << row.line;
  }
  const ImportedRow* row = row_at(file, 99);
  ASSERT_TRUE(row != nullptr);
  EXPECT_EQ(
      row->summary.verdict.findings[0].message,
      "842 output tokens a request, 84.2 % of the 1000 that were asked for"
  );
  EXPECT_EQ(num_with(file, "output_length", Trust::kInvalid), 48u);
}

// One row of 160 has 1.7 requests in flight where 4 are kept there; all others are above the bound
// that a closed loop cannot fall below.
TEST_F(PublishedTables, AuditFindsTheViolationOfLittlesLaw) {
  const ImportedFile file = audited("concurrency.md");
  EXPECT_EQ(num_with(file, "littles_law", Trust::kInvalid), 1u);
  EXPECT_TRUE(has_finding(row_at(file, 307), "littles_law", Trust::kInvalid));
  EXPECT_EQ(num_with(audited("grid.md"), "littles_law", Trust::kInvalid), 0u);
  EXPECT_EQ(num_with(audited("sweep.md"), "littles_law", Trust::kInvalid), 0u);
}

TEST_F(PublishedTables, AuditFindsRowsOfZerosAndRowsOutOfOrderInTheSweep) {
  const ImportedFile file = audited("sweep.md");
  ASSERT_EQ(file.rows.size(), 132u);
  for (const int64_t line : {8, 88, 89, 104}) {
    EXPECT_TRUE(has_finding(row_at(file, line), "no_requests", Trust::kInvalid)) << line;
  }
  EXPECT_EQ(num_with(file, "no_requests", Trust::kInvalid), 4u);
  // asynchronous@0.92: 2.38 req/s completed at 59.67 s.
  const ImportedRow* row = row_at(file, 94);
  EXPECT_TRUE(has_finding(row, "surplus", Trust::kInvalid));
  EXPECT_TRUE(has_finding(row, "disturbed", Trust::kInvalid));
  EXPECT_TRUE(has_finding(row, "order", Trust::kInvalid));
}

TEST_F(PublishedTables, AuditFindsTheMistypedRateAndTheSplicedTableOfTheSweep) {
  const ImportedFile file = audited("sweep.md");
  const ImportedRow* mistyped = row_at(file, 27);
  ASSERT_TRUE(has_finding(mistyped, "spacing", Trust::kInvalid));
  EXPECT_NE(mistyped->summary.verdict.findings.back().message.find("is 10.10"), std::string::npos);
  for (const ImportedRow& row : file.rows) {
    if (!has_finding(&row, "spacing", Trust::kInvalid) || row.line == 27) continue;
    // All others are of one table.
    EXPECT_TRUE(row.line >= 72 && row.line <= 80) << row.line;
  }
  EXPECT_EQ(num_with(file, "spacing", Trust::kInvalid), 8u);
}

// One table's latencies and gaps cannot be of the same runs: nobody had said so.
TEST_F(PublishedTables, AuditFindsLatenciesThatAreNotTheSumOfTheirParts) {
  const ImportedFile file = audited("sweep.md");
  EXPECT_EQ(num_with(file, "contradiction", Trust::kInvalid), 6u);
  for (const ImportedRow& row : file.rows) {
    if (!has_finding(&row, "contradiction", Trust::kInvalid)) continue;
    EXPECT_TRUE(row.line >= 171 && row.line <= 176) << row.line;
  }
}

TEST_F(PublishedTables, AuditFindsThatHalfOfTheRequestsNeverCompleted) {
  const ImportedFile file = audited("rate.jsonl");
  ASSERT_EQ(file.rows.size(), 12u);
  for (const int64_t line : {6, 12}) {
    const ImportedRow* row = row_at(file, line);
    ASSERT_TRUE(has_finding(row, "incomplete", Trust::kInvalid)) << line;
    const std::string& message = row->summary.verdict.findings[0].message;
    EXPECT_NE(message.find("1015 of 2000 requests"), std::string::npos);
    EXPECT_NE(message.find("1024, a usual limit of open files"), std::string::npos);
  }
  for (const int64_t line : {1, 7}) {
    EXPECT_TRUE(has_finding(row_at(file, line), "rate", Trust::kInvalid)) << line;
  }
  EXPECT_EQ(num_of(file, Trust::kInvalid), 4u);
}

TEST_F(PublishedTables, AuditCountsAreThese) {
  struct Count {
    const char* name;
    size_t ok, warn, invalid;
  };
  for (const Count& count :
       {Count{"grid.md", 418, 0, 62},
        Count{"sweep.md", 40, 63, 29},
        Count{"concurrency.md", 107, 2, 51},
        Count{"rate.jsonl", 3, 5, 4}}) {
    const ImportedFile file = audited(count.name);
    EXPECT_EQ(num_of(file, Trust::kOk), count.ok) << count.name;
    EXPECT_EQ(num_of(file, Trust::kWarn), count.warn) << count.name;
    EXPECT_EQ(num_of(file, Trust::kInvalid), count.invalid) << count.name;
  }
}

// The only invalid rows of the grid are those that say themselves that they failed.
TEST_F(PublishedTables, AuditFindsNothingElseInTheGrid) {
  const ImportedFile file = audited("grid.md");
  ASSERT_EQ(file.rows.size(), 480u);
  EXPECT_EQ(num_with(file, "failed", Trust::kInvalid), 62u);
}

TEST_F(PublishedTables, AuditOfAFileBeginsWithTotalsAndGoesBySection) {
  const std::string text = audit_markdown(audited("rate.jsonl"), "rate.jsonl");
  EXPECT_TRUE(text.starts_with("# Audit of rate.jsonl\n\n12 rows: 3 ok, 5 warn, 4 invalid.\n"));
  EXPECT_NE(text.find("\n## vllm, meta-llama/Llama-3.1-8B-Instruct\n"), std::string::npos);
  EXPECT_NE(
      text.find("- line 6, inf req/s: **invalid** (incomplete): 1015 of 2000"), std::string::npos
  );
}

// The keys of vLLM in 2025, with the order that the file has.
TEST_F(PublishedTables, VllmJsonKeepsEachFigureOfTheRateRows) {
  const ImportedFile file = imported("rate.jsonl");
  const std::string text = text_of("rate.jsonl");
  const std::vector<std::string_view> lines = split_lines(text);
  ASSERT_EQ(file.rows.size(), lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    const Result<json::value> theirs = parse_json(lines[i]);
    const Result<json::value> ours = parse_json(vllm_json(file.rows[i].summary, nullptr));
    ASSERT_TRUE(theirs.ok() && ours.ok());
    std::vector<std::string_view> their_keys, our_keys;
    for (const json::key_value_pair& entry : theirs->as_object()) {
      const std::string_view key =
          entry.key() == "request_goodput:" ? "request_goodput" : std::string_view(entry.key());
      their_keys.push_back(key);
      const json::value* value = ours->as_object().if_contains(key);
      ASSERT_TRUE(value != nullptr) << key;
      EXPECT_EQ(to_json_text(*value), to_json_text(entry.value())) << key;
    }
    for (const json::key_value_pair& entry : ours->as_object()) {
      if (std::count(their_keys.begin(), their_keys.end(), std::string_view(entry.key())) > 0) {
        our_keys.push_back(entry.key());
      }
    }
    EXPECT_EQ(our_keys, their_keys);
  }
}

}  // namespace
}  // namespace millrace::bench
