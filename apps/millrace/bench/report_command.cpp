// `millrace bench report`: recorded points in any shape.
#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "bench/bench_run.h"
#include "bench/commands.h"
#include "bench/flags.h"
#include "command_line.h"
#include "failure.h"
#include "report/import.h"
#include "report/report.h"
#include "results/record_file.h"
#include "results/summarize.h"

namespace millrace::bench {
namespace {

struct ReportFlags {
  std::vector<std::string> inputs;
  std::string shape = "markdown";
  std::string output;
  ReportOptions options;
  bool is_steady = false;
  bool is_strict = false;
};

constexpr const char* kFooter =
    "Shapes: grid, guidellm, concurrency, plotly (the published page), sglang (console block), "
    "markdown, csv,\n"
    "html. Each is computed with its own tool's formulas from the same recorded requests; files of "
    "other tools\n"
    "(as `bench import` reads them) keep the figures that they have.\n"
    "\n"
    "Example:\n"
    "  millrace bench report --in run.jsonl --shape html -o run.html";

struct Rows {
  std::vector<PointSummary> summaries;
  std::vector<PointRecord> records;  // of ours
};

Result<void> read_into(Rows& rows, const std::string& path, const ReportFlags& flags, Shape shape) {
  Result<std::string> text = read_file(path);
  if (!text) return text.error();
  Result<ImportedFile> file = import_results(*text, path);
  if (!file) return file.error();
  if (file->format != ResultFormat::kMillrace) {
    audit(*file);
    for (ImportedRow& row : file->rows) rows.summaries.push_back(std::move(row.summary));
    return {};
  }
  Result<std::vector<PointRecord>> records = parse_records(*text);
  if (!records) return records.error();
  for (PointRecord& record : *records) {
    rows.summaries.push_back(
        summarize(record, {.formulas = formulas_of(shape), .steady_only = flags.is_steady})
    );
    rows.records.push_back(std::move(record));
  }
  return {};
}

std::string text_of(Shape shape, const Rows& rows, const ReportOptions& options) {
  switch (shape) {
    case Shape::kGrid:
      return grid_markdown(rows.summaries, options);
    case Shape::kGuidellm:
      return guidellm_markdown(rows.summaries, options);
    case Shape::kConcurrency:
      return concurrency_markdown(rows.summaries, options);
    case Shape::kPlotly:
      return plotly_markdown(rows.summaries, options);
    case Shape::kMarkdown:
      return markdown_table(rows.summaries, options);
    case Shape::kCsv:
      return csv(rows.summaries);
    case Shape::kHtml:
      // Rows without requests would stand beside the wrong ones.
      return html_page(
          rows.summaries,
          rows.records.size() == rows.summaries.size() ? rows.records : std::vector<PointRecord>(),
          options
      );
    case Shape::kSglang:
      break;
  }
  std::string text;
  for (const PointSummary& row : rows.summaries) text += sglang_console(row);
  return text;
}

// What the shape has no place for is refused, and a report over what it is made of.
Result<void> check(const ReportFlags& flags, Shape shape) {
  const bool has_title = shape != Shape::kCsv && shape != Shape::kSglang;
  Result<void> checked = refuse_given(
      {{"--all-tables", flags.options.shows_all_tables && shape != Shape::kGuidellm},
       {"--keep-typos", flags.options.keeps_typos && shape != Shape::kConcurrency},
       {"--title", !flags.options.title.empty() && !has_title}},
      "has no meaning for --shape " + flags.shape
  );
  if (!checked) return checked;
  checked = refuse_overwriting("--output", flags.output, flags.inputs);
  if (!checked) return checked;
  return check_output_file("--output", flags.output);
}

Result<int> write(ReportFlags& flags) {
  if (flags.inputs.empty()) return invalid_argument("give --in FILE", "--in");
  const Result<Shape> shape = parse_shape(flags.shape);
  if (!shape) return invalid_argument(shape.error().message, "--shape");
  if (auto checked = check(flags, *shape); !checked) return checked.error();
  Rows rows;
  for (const std::string& path : flags.inputs) {
    if (auto read = read_into(rows, path, flags, *shape); !read) return read.error();
  }
  flags.options.now_unix_ns =
      std::chrono::duration_cast<Nanos>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  if (flags.options.title.empty()) flags.options.title = "Benchmark";
  const std::string text = text_of(*shape, rows, flags.options);
  if (auto written = write_report(flags.output, text); !written) return written.error();
  if (!flags.is_strict) return 0;
  for (const PointSummary& row : rows.summaries) {
    if (row.verdict.trust() != Trust::kOk) return kExitNotTrusted;
  }
  return 0;
}

}  // namespace

int run_report(std::vector<std::string> arguments) {
  ReportFlags flags;
  CommandLine line("bench report", "Writes recorded points in the shape of a tool or table.");
  line.add_callback(
      "--in,-i",
      [&flags](const std::string& path) -> Result<void> {
        flags.inputs.push_back(path);
        return {};
      },
      "file of --records, or another tool's; several times"
  );
  line.add(
      "--shape", flags.shape, "grid, guidellm, concurrency, plotly, sglang, markdown, csv, html"
  );
  line.add("--output,-o", flags.output, "file (stdout)");
  line.add("--title", flags.options.title, "of the page");
  line.add_flag("--steady", flags.is_steady, "only the window at full concurrency");
  line.add_flag("--all-tables", flags.options.shows_all_tables, "guidellm: its other three too");
  line.add_flag("--keep-typos", flags.options.keeps_typos, "the published headings, as they are");
  line.add_flag("--strict", flags.is_strict, "exit code 4 where a row is not ok");
  line.set_footer(kFooter);
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  const Result<int> exit_code = write(flags);
  return exit_code ? *exit_code : report("bench report", exit_code.error());
}

}  // namespace millrace::bench
