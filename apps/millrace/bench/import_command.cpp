// `millrace bench import`: others' results, read and looked at with suspicion.
#include <fmt/format.h>

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

namespace millrace::bench {
namespace {

struct ImportFlags {
  std::string path;
  std::string output;
  std::string html;
  bool is_json = false;
  bool is_strict = false;
};

constexpr const char* kFooter =
    "Reads: vLLM's JSON (--save-result), SGLang's JSONL, guidellm's JSON, our --records, and the "
    "markdown tables\n"
    "of the B/I/H/O grid, guidellm 0.1 and ISL:OSL by concurrency. Says for each row what in it "
    "contradicts\n"
    "itself: answers shorter than asked for, Little's law, requests that vanished, rates that were "
    "not kept.\n"
    "\n"
    "Example:\n"
    "  millrace bench import concurrency.md";

Result<int> import(const ImportFlags& flags) {
  if (flags.path.empty()) return invalid_argument("give a FILE of results");
  const OutputFlags output{.html = flags.html, .report = flags.output};
  if (auto checked = check_output_files(output); !checked) return checked.error();
  for (const auto& [flag, file] : {std::pair("--output", flags.output), {"--html", flags.html}}) {
    if (auto checked = refuse_overwriting(flag, file, {flags.path}); !checked)
      return checked.error();
  }
  const Result<std::string> text = read_file(flags.path);
  if (!text) return text.error();
  Result<ImportedFile> file = import_results(*text, flags.path);
  if (!file) return file.error();
  audit(*file);
  std::string out;
  if (flags.is_json) {
    for (const ImportedRow& row : file->rows) out += summary_json(row.summary) + "\n";
  } else {
    out = audit_markdown(*file, flags.path);
  }
  if (auto written = write_report(flags.output, out); !written) return written.error();
  bool is_ok = true;
  std::vector<PointSummary> rows;
  for (ImportedRow& row : file->rows) {
    is_ok = is_ok && row.summary.verdict.trust() == Trust::kOk;
    if (!flags.html.empty()) rows.push_back(std::move(row.summary));
  }
  if (!flags.html.empty()) {
    const std::string page = html_page(rows, {}, {.title = flags.path});
    if (auto written = write_report(flags.html, page); !written) return written.error();
  }
  return flags.is_strict && !is_ok ? kExitNotTrusted : 0;
}

}  // namespace

int run_import(std::vector<std::string> arguments) {
  ImportFlags flags;
  CommandLine line(
      "bench import", "Reads results of other tools and says what is wrong with them."
  );
  line.add_positional("FILE", flags.path, "the results");
  line.add("--output,-o", flags.output, "file (stdout)");
  line.add("--html", flags.html, "file for a page with charts of the rows");
  line.add_flag("--json", flags.is_json, "one JSON object for each row, with its verdict");
  line.add_flag("--strict", flags.is_strict, "exit code 4 where a row is not ok");
  line.set_footer(kFooter);
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  const Result<int> exit_code = import(flags);
  return exit_code ? *exit_code : report("bench import", exit_code.error());
}

}  // namespace millrace::bench
