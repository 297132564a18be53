// `millrace bench rate`: servers by request rate, in the shape of the published page.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_run.h"
#include "bench/commands.h"
#include "bench/environment.h"
#include "bench/flag_values.h"
#include "bench/flags.h"
#include "bench/frameworks.h"
#include "command_line.h"
#include "failure.h"
#include "report/report.h"

namespace millrace::bench {
namespace {

constexpr double kSecondsPerRateDefault = 120.0;
constexpr int64_t kInfPromptsDefault = 2000;
constexpr double kPromptsMax = 1e9;  // of a point

struct RateFlags {
  BenchFlags bench;
  std::vector<FrameworkFlag> frameworks;
  std::vector<double> rates = {1, 10, 20, 30, 35, std::numeric_limits<double>::infinity()};
  double burstiness = 1.0;
  std::optional<double> seconds_per_rate;  // none: 120
  std::optional<int64_t> inf_prompts;      // none: 2000
  int64_t num_rounds = 1;
  int64_t input_len = 1000;
  int64_t output_len = 100;
  std::string jsonl;
};

constexpr const char* kFooter =
    "The published workload is the default: 1000 tokens in, 100 out, rates 1 to 35 for two minutes "
    "each, then\n"
    "2000 requests at once. Prompts are the same for all servers.\n"
    "\n"
    "Example:\n"
    "  millrace bench rate --framework ours=http://127.0.0.1:8000 --framework "
    "theirs=http://127.0.0.1:8001 \\\n"
    "    --request-rate 1,2,4,inf --seconds-per-rate 30 --inf-prompts 100 -o rate.md";

void add_flags(CommandLine& line, RateFlags& flags) {
  add_target_flags(line, flags.bench.target, /*with_framework=*/false);
  add_framework_flag(line, flags.frameworks);
  add_seed_flags(line, flags.bench);
  line.add_value(
      "--request-rate",
      [&flags](const std::string& text) -> Result<void> {
        Result<std::vector<double>> rates = parse_rates(text);
        if (!rates) return rates.error();
        flags.rates = *std::move(rates);
        return {};
      },
      "requests per second, several with commas (1,10,20,30,35,inf)"
  );
  line.add("--burstiness", flags.burstiness, "gamma's shape: 1 is Poisson (1)");
  line.add("--seconds-per-rate", flags.seconds_per_rate, "requests are rate times this (120)");
  line.add("--inf-prompts", flags.inf_prompts, "requests where the rate is inf (2000)");
  line.add(
      "--rounds",
      flags.num_rounds,
      "each rate so often, the servers in turn: differences get a spread, and from six on a mark "
      "of significance (1)"
  );
  line.add("--input-len,--random-input-len,--isl", flags.input_len, "tokens of a prompt (1000)");
  line.add("--output-len,--random-output-len,--osl", flags.output_len, "of an answer (100)");
  add_limit_flags(line, flags.bench.load);
  add_output_flags(line, flags.bench.output);
  line.add("--jsonl", flags.jsonl, "file for the page's lines of JSON alone");
  line.set_footer(kFooter);
}

int64_t num_prompts_of(const RateFlags& flags, double rate) {
  if (std::isinf(rate)) return flags.inf_prompts.value_or(kInfPromptsDefault);
  const double num_prompts =
      std::round(rate * flags.seconds_per_rate.value_or(kSecondsPerRateDefault));
  return std::max<int64_t>(1, static_cast<int64_t>(num_prompts));
}

PointSpec spec_of(const RateFlags& flags, double rate, int64_t round) {
  LoadFlags load;
  load.request_rate = rate;
  load.burstiness = flags.burstiness;
  PointSpec spec;
  spec.load = load_of(load);
  spec.name = std::isinf(rate) ? "rate inf" : fmt::format("rate {}", rate);
  if (flags.num_rounds > 1) spec.name += fmt::format(" round {}", round + 1);
  spec.dataset = flags.bench.dataset;
  spec.dataset.name = "random";
  spec.dataset.input_len = flags.input_len;
  spec.dataset.output_len = flags.output_len;
  spec.num_prompts = num_prompts_of(flags, rate);
  spec.max_seconds = flags.bench.load.max_seconds;
  return spec;
}

Result<void> measure_all(
    const RateFlags& flags, BenchRun& run, std::vector<MeasuredServer>& servers
) {
  size_t seed_offset = 0;  // the same prompts and arrivals for all servers
  for (const double rate : flags.rates) {
    for (int64_t round = 0; round < flags.num_rounds; ++round, ++seed_offset) {
      for (MeasuredServer& server : servers) {
        if (run.is_interrupted()) return {};
        PointSpec spec = spec_of(flags, rate, round);
        if (servers.size() > 1) spec.name = server.framework + " " + spec.name;
        auto record = run.measure(server, spec, seed_offset);
        if (!record) return record.error();
      }
    }
  }
  return {};
}

// What is about rates of the other kind is refused, too.
Result<void> check_loads(const RateFlags& flags) {
  const bool has_infinity =
      std::ranges::any_of(flags.rates, [](double rate) { return std::isinf(rate); });
  const bool has_finite =
      std::ranges::any_of(flags.rates, [](double rate) { return std::isfinite(rate); });
  Result<void> checked = refuse_given(
      {{"--inf-prompts", !has_infinity && flags.inf_prompts}},
      "has no meaning where no --request-rate is inf"
  );
  if (!checked) return checked;
  checked = refuse_given(
      {{"--seconds-per-rate", !has_finite && flags.seconds_per_rate},
       {"--burstiness", !has_finite && flags.burstiness != 1.0}},
      "needs a finite --request-rate"
  );
  if (!checked) return checked;
  const int64_t inf_prompts = flags.inf_prompts.value_or(kInfPromptsDefault);
  if (inf_prompts < 1 || static_cast<double>(inf_prompts) > kPromptsMax) {
    return invalid_argument(
        fmt::format("--inf-prompts is {}: expected 1 to {:g}", inf_prompts, kPromptsMax),
        "--inf-prompts"
    );
  }
  const double seconds = flags.seconds_per_rate.value_or(kSecondsPerRateDefault);
  for (const double rate : flags.rates) {
    if (std::isinf(rate) || (seconds > 0.0 && rate * seconds <= kPromptsMax)) continue;
    return invalid_argument(
        fmt::format(
            "--seconds-per-rate is {}: expected seconds above 0, and at most {:g} requests at {} a "
            "second",
            seconds,
            kPromptsMax,
            rate
        ),
        "--seconds-per-rate"
    );
  }
  return {};
}

Result<int> measure(const RateFlags& flags, const std::string& command) {
  if (auto checked = check_loads(flags); !checked) return checked.error();
  constexpr int64_t kRoundsMax = 1000;
  if (flags.num_rounds < 1 || flags.num_rounds > kRoundsMax) {
    return invalid_argument(fmt::format("--rounds must be 1 to {}", kRoundsMax), "--rounds");
  }
  Result<void> checked = refuse_given(
      {{"--num-prompts", flags.bench.load.num_prompts.has_value()}},
      "has no meaning here: --seconds-per-rate and --inf-prompts say how many"
  );
  if (!checked) return checked.error();
  if (!(flags.burstiness > 0.0)) {
    return invalid_argument("--burstiness must be above 0", "--burstiness");
  }
  checked = check_output_files(flags.bench.output, {{"--jsonl", flags.jsonl}});
  if (!checked) return checked.error();
  Result<std::unique_ptr<BenchRun>> run = BenchRun::start(flags.bench, command);
  if (!run) return run.error();
  Result<std::vector<MeasuredServer>> servers = connect_all(flags.bench, flags.frameworks);
  if (!servers) return servers.error();
  (*run)->note(measure_all(flags, **run, *servers));
  const std::vector<PointSummary> rows = (*run)->summaries(Formulas::kVllm);
  ReportOptions options;
  options.now_unix_ns =
      std::chrono::duration_cast<Nanos>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  (*run)->write(flags.bench.output.report, plotly_markdown(rows, options));
  if (!flags.jsonl.empty()) (*run)->write(flags.jsonl, plotly_jsonl(rows));
  return (*run)->finish("Latency by request rate");
}

}  // namespace

int run_rate(std::vector<std::string> arguments) {
  RateFlags flags;
  CommandLine line("bench rate", "Measures one or several servers by request rate.");
  add_flags(line, flags);
  const std::string command = command_text("millrace bench rate", arguments);
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  const Result<int> exit_code = measure(flags, command);
  return exit_code ? *exit_code : report("bench rate", exit_code.error());
}

}  // namespace millrace::bench
