// `millrace bench concurrency`: lengths by concurrency, in the shape of the published tables.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_run.h"
#include "bench/commands.h"
#include "bench/environment.h"
#include "bench/flag_values.h"
#include "bench/flags.h"
#include "command_line.h"
#include "failure.h"
#include "report/report.h"

namespace millrace::bench {
namespace {

struct ConcurrencyFlags {
  BenchFlags bench;
  std::vector<int64_t> concurrency = {1, 2, 4, 8, 16, 32, 64, 128};
  std::vector<std::pair<int64_t, int64_t>> lengths = {
      {3000, 150}, {1000, 1000}, {500, 1000}, {2500, 100}};
  int64_t prompts_per_concurrency = 10;
};

constexpr const char* kFooter =
    "The published workload is the default: ISL:OSL 3000:150, 1000:1000, 500:1000 and 2500:100 by "
    "1 to 128\n"
    "requests at once, ten waves each.\n"
    "\n"
    "Example:\n"
    "  millrace bench concurrency --port 8000 --isl-osl 512:64,64:256 --max-concurrency 1,2,4,8";

void add_flags(CommandLine& line, ConcurrencyFlags& flags) {
  flags.bench.target.backend = "openai-chat";
  add_target_flags(line, flags.bench.target);
  add_seed_flags(line, flags.bench);
  line.add_value(
      "--isl-osl",
      [&flags](const std::string& text) -> Result<void> {
        Result<std::vector<std::pair<int64_t, int64_t>>> lengths = parse_length_pairs(text);
        if (!lengths) return lengths.error();
        flags.lengths = *std::move(lengths);
        return {};
      },
      "INPUT:OUTPUT tokens, several with commas"
  );
  line.add_value(
      "--max-concurrency,--concurrency",
      [&flags](const std::string& text) -> Result<void> {
        Result<std::vector<int64_t>> counts = parse_counts(text);
        if (!counts) return counts.error();
        flags.concurrency = *std::move(counts);
        return {};
      },
      "requests at once, several with commas (1,2,4,8,16,32,64,128)"
  );
  line.add("--prompts-per-concurrency", flags.prompts_per_concurrency, "waves of a point (10)");
  add_limit_flags(line, flags.bench.load);
  add_output_flags(line, flags.bench.output);
  line.add_flag(
      "--keep-typos", flags.bench.output.keeps_typos, "the published tables' headings, as they are"
  );
  line.set_footer(kFooter);
}

PointSpec spec_of(
    const ConcurrencyFlags& flags, std::pair<int64_t, int64_t> lengths, int64_t concurrency
) {
  PointSpec spec;
  spec.name = fmt::format("{}:{} by {}", lengths.first, lengths.second, concurrency);
  spec.load.kind = LoadKind::kConcurrency;
  spec.load.max_concurrency = concurrency;
  spec.dataset = flags.bench.dataset;
  spec.dataset.name = "random";
  spec.dataset.input_len = lengths.first;
  spec.dataset.output_len = lengths.second;
  spec.num_prompts =
      flags.bench.load.num_prompts.value_or(flags.prompts_per_concurrency * concurrency);
  spec.max_seconds = flags.bench.load.max_seconds;
  return spec;
}

Result<void> measure_all(const ConcurrencyFlags& flags, BenchRun& run, MeasuredServer& server) {
  for (const auto& lengths : flags.lengths) {
    for (const int64_t concurrency : flags.concurrency) {
      if (run.is_interrupted()) return {};
      auto record = run.measure(server, spec_of(flags, lengths, concurrency));
      if (!record) return record.error();
    }
  }
  return {};
}

Result<int> measure(const ConcurrencyFlags& flags, const std::string& command) {
  if (flags.prompts_per_concurrency < 1) {
    return invalid_argument(
        "--prompts-per-concurrency must be at least 1", "--prompts-per-concurrency"
    );
  }
  Result<std::unique_ptr<BenchRun>> run = BenchRun::start(flags.bench, command);
  if (!run) return run.error();
  Result<MeasuredServer> server = MeasuredServer::connect(flags.bench, {}, {});
  if (!server) return server.error();
  (*run)->note(measure_all(flags, **run, *server));
  const std::string text = concurrency_markdown(
      (*run)->summaries(Formulas::kVllm), {.keeps_typos = flags.bench.output.keeps_typos}
  );
  (*run)->write(flags.bench.output.report, text);
  return (*run)->finish("Latency by concurrency");
}

}  // namespace

int run_concurrency(std::vector<std::string> arguments) {
  ConcurrencyFlags flags;
  CommandLine line("bench concurrency", "Measures input:output lengths by concurrency.");
  add_flags(line, flags);
  const std::string command = command_text("millrace bench concurrency", arguments);
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  const Result<int> exit_code = measure(flags, command);
  return exit_code ? *exit_code : report("bench concurrency", exit_code.error());
}

}  // namespace millrace::bench
