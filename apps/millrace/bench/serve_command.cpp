// `millrace bench serve`: one load on one server.
#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_run.h"
#include "bench/commands.h"
#include "bench/environment.h"
#include "bench/flags.h"
#include "bench/saved_result.h"
#include "command_line.h"
#include "failure.h"
#include "report/report.h"

namespace millrace::bench {
namespace {

constexpr int64_t kNumPromptsDefault = 1000;  // as vLLM and SGLang
constexpr int64_t kInputLenDefault = 1024;    // as both
constexpr int64_t kOutputLenDefault = 128;    // as vLLM

struct ServeFlags {
  BenchFlags bench;
  SavedResultFlags saved;
  std::string style;  // vllm or sglang; empty: the backend's
};

constexpr const char* kFooter =
    "Without --max-seconds a thousand requests are sent, or all of a file or of "
    "generated-shared-prefix; without\n"
    "--request-rate all at once, or as a closed loop of --max-concurrency. Answers have their full "
    "length\n"
    "(--disable-ignore-eos lets them end).\n"
    "\n"
    "Examples:\n"
    "  millrace bench serve --port 8000 --input-len 512 --output-len 128 --request-rate 4 "
    "--num-prompts 200\n"
    "  millrace bench serve --backend sglang --base-url http://gpu:30000 --max-concurrency 32 "
    "--html run.html\n"
    "  millrace bench serve --backend openai-chat --dataset-name sharegpt --dataset-path "
    "ShareGPT.json --goodput 'ttft:200 tpot:50'";

void add_flags(CommandLine& line, ServeFlags& flags) {
  add_target_flags(line, flags.bench.target);
  add_dataset_flags(line, flags.bench);
  add_load_flags(line, flags.bench.load);
  add_limit_flags(line, flags.bench.load);
  add_output_flags(line, flags.bench.output);
  add_saved_result_flags(line, flags.saved);
  line.add("--report-style", flags.style, "vllm or sglang: whose block is printed (the backend's)");
  line.set_footer(kFooter);
}

// Which of the two tools' formulas and layouts. The error names the flag.
Result<bool> is_sglang_style(const ServeFlags& flags) {
  if (flags.style.empty()) return flags.bench.target.backend.starts_with("sglang");
  if (flags.style != "vllm" && flags.style != "sglang") {
    return invalid_argument("--report-style must be vllm or sglang", "--report-style");
  }
  return flags.style == "sglang";
}

PointSpec spec_of(const ServeFlags& flags) {
  PointSpec spec;
  spec.load = load_of(flags.bench.load);
  spec.dataset = flags.bench.dataset;
  set_default_lengths(spec.dataset, kInputLenDefault, kOutputLenDefault);
  const bool is_trace = spec.dataset.name == "mooncake" || spec.dataset.name == "timed_trace";
  if (is_trace && std::isinf(flags.bench.load.request_rate)) spec.load.kind = LoadKind::kTrace;
  spec.max_seconds = flags.bench.load.max_seconds;
  spec.num_prompts = flags.bench.load.num_prompts;
  if (!spec.num_prompts && !spec.max_seconds && spec.dataset.path.empty()) {
    spec.num_prompts = num_grouped_prompts(spec.dataset).value_or(kNumPromptsDefault);
  }
  return spec;
}

Result<int> serve(ServeFlags& flags, const std::string& command) {
  const Result<bool> is_sglang = is_sglang_style(flags);
  if (!is_sglang) return is_sglang.error();
  if (auto checked = check(flags.saved, *is_sglang, flags.bench.output); !checked) {
    return checked.error();
  }
  flags.bench.output.keeps_texts = flags.saved.keeps_texts();
  Result<std::unique_ptr<BenchRun>> run = BenchRun::start(flags.bench, command);
  if (!run) return run.error();
  Result<MeasuredServer> server = MeasuredServer::connect(flags.bench, {}, {});
  if (!server) return server.error();
  const Result<const PointRecord*> record = (*run)->measure(*server, spec_of(flags));
  if (!record) return record.error();

  const PointSummary row = (*run)->last_summary(*is_sglang ? Formulas::kSglang : Formulas::kVllm);
  const std::vector<double>& ranks = flags.bench.output.metric_percentiles;
  const std::string text =
      *is_sglang ? sglang_console(row) : vllm_console(row, flags.saved.vllm_options(ranks));
  (*run)->write(flags.bench.output.report, text);
  save_result(flags.saved, ranks, **run, **record);
  return (*run)->finish("Benchmark of " + server->framework);
}

}  // namespace

int run_serve(std::vector<std::string> arguments) {
  ServeFlags flags;
  CommandLine line("bench serve", "Puts one load on one server and reports its latencies.");
  add_flags(line, flags);
  const std::string command = command_text("millrace bench serve", arguments);
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  const Result<int> exit_code = serve(flags, command);
  return exit_code ? *exit_code : report("bench serve", exit_code.error());
}

}  // namespace millrace::bench
