// Others' results: read, and looked at with suspicion.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "results/point_summary.h"

namespace millrace::bench {

enum class ResultFormat {
  kMillrace,             // our JSONL
  kVllmJson,             // vllm bench serve --save-result; also appended lines (published rate)
  kSglangJsonl,          // bench_serving --output-file
  kGuidellmJson,         // report{...} of guidellm
  kGridMarkdown,         // published grid
  kGuidellmMarkdown,     // published sweep
  kConcurrencyMarkdown,  // published concurrency
};

struct ImportedRow {
  PointSummary summary;  // as far as the file says; its verdict is the audit's
  std::string section;   // the headings above it: "Dynamo 3P(TP4) 1D(TP4)"
  int64_t line = 0;      // of the file
};

struct ImportedFile {
  ResultFormat format = ResultFormat::kMillrace;
  std::vector<ImportedRow> rows;
};

// Finds out what the text is. The error names the line and what was expected.
Result<ImportedFile> import_results(std::string_view text, const std::string& name);

// Fills each row's verdict: requested output length not reached, Little's law, rows of zeros,
// order, completed below asked, rate off, figures that contradict each other. A row's neighbours in
// its table are part of the evidence.
void audit(ImportedFile& file);

// The findings as markdown, by section, with totals first.
std::string audit_markdown(const ImportedFile& file, const std::string& name);

}  // namespace millrace::bench
