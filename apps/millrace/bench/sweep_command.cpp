// `millrace bench sweep`: guidellm's sweep from a synchronous client to saturation, and its other
// profiles.
#include <fmt/format.h>

#include <algorithm>
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
#include "bench/sweep_rates.h"
#include "command_line.h"
#include "failure.h"
#include "report/report.h"
#include "terminal.h"

namespace millrace::bench {
namespace {

constexpr int64_t kThroughputConcurrency = 512;  // guidellm's own bound
constexpr int64_t kSweepSize = 10;
constexpr double kMaxSecondsDefault = 120.0;

struct SweepFlags {
  BenchFlags bench;
  std::string rate_type = "sweep";
  std::vector<double> rates;
  std::optional<int64_t> sweep_size;  // none: kSweepSize
  std::string strategy;               // empty: constant
  std::optional<int64_t> max_concurrency;
  std::optional<double> rampup_seconds;
  bool shows_all_tables = false;
  std::string json;
};

constexpr const char* kFooter =
    "A sweep measures one request at a time, then as many as go, then rates between the two. Each "
    "point starts\n"
    "when the server is idle; what is unfinished at its end may still finish (--grace-sec), and is "
    "never left out.\n"
    "\n"
    "Example:\n"
    "  millrace bench sweep --port 8000 --data prompt_tokens=512,generated_tokens=128 "
    "--max-seconds 30";

// "prompt_tokens=512,generated_tokens=128", also output_tokens.
Result<void> take_data(const std::string& text, DatasetOptions& dataset) {
  size_t start = 0;
  while (start <= text.size()) {
    const size_t end = std::min(text.find(',', start), text.size());
    const auto pair = parse_assignment(text.substr(start, end - start));
    if (!pair) return pair.error();
    const Result<std::vector<int64_t>> value = parse_counts(pair->second);
    if (!value) return value.error();
    if (pair->first == "prompt_tokens") {
      dataset.input_len = value->front();
    } else if (pair->first == "generated_tokens" || pair->first == "output_tokens") {
      dataset.output_len = value->front();
    } else if (pair->first == "prefix_tokens") {
      dataset.prefix_len = value->front();
    } else {
      return invalid_argument(fmt::format(
          "there is no '{}': expected prompt_tokens, generated_tokens or prefix_tokens", pair->first
      ));
    }
    start = end + 1;
  }
  return {};
}

void add_flags(CommandLine& line, SweepFlags& flags) {
  flags.bench.target.backend = "openai-chat";
  add_target_flags(line, flags.bench.target);
  add_dataset_flags(line, flags.bench);
  line.add_value(
      "--data",
      [&flags](const std::string& text) { return take_data(text, flags.bench.dataset); },
      "prompt_tokens=512,generated_tokens=128"
  );
  line.add(
      "--rate-type,--profile",
      flags.rate_type,
      "sweep, synchronous, throughput, concurrent, constant or poisson (sweep)"
  );
  line.add_value(
      "--rate",
      [&flags](const std::string& text) -> Result<void> {
        Result<std::vector<double>> rates = parse_rates(text);
        if (!rates) return rates.error();
        flags.rates = *std::move(rates);
        return {};
      },
      "of constant and poisson, or streams of concurrent; several with commas"
  );
  line.add(
      "--sweep-size", flags.sweep_size, "points of a sweep, at least 2 (10; guidellm 0.1: 11)"
  );
  line.add("--strategy-type", flags.strategy, "between the two: constant or poisson (constant)");
  line.add("--max-concurrency", flags.max_concurrency, "of throughput (512)");
  line.add("--rampup-sec", flags.rampup_seconds, "streams of concurrent start over so long");
  add_limit_flags(line, flags.bench.load);
  add_output_flags(line, flags.bench.output);
  line.add_flag("--all-tables", flags.shows_all_tables, "guidellm 0.1's other three tables too");
  line.add("--json", flags.json, "file for guidellm's JSON");
  line.set_footer(kFooter);
}

// Measures the points of one sweep.
class Sweep {
 public:
  Sweep(const SweepFlags& flags, BenchRun& run, MeasuredServer& server)
      : flags_(flags), run_(run), server_(server) {}

  Result<void> run() {
    if (flags_.rate_type == "synchronous") return synchronous();
    if (flags_.rate_type == "throughput") return throughput();
    if (flags_.rate_type == "sweep") return sweep();
    for (const double rate : flags_.rates) {
      const Result<void> measured =
          flags_.rate_type == "concurrent" ? concurrent(rate) : at_rate(rate, flags_.rate_type);
      if (!measured) return measured.error();
    }
    return {};
  }

 private:
  Result<void> sweep() {
    if (auto measured = synchronous(); !measured) return measured.error();
    const double slowest = last_rate();
    if (auto measured = throughput(); !measured) return measured.error();
    const double fastest = last_rate();
    if (run_.is_interrupted()) return {};
    if (!(slowest > 0.0) || !(fastest > 0.0)) {
      return Error{
          ErrorCode::kInternal, "no request was completed, so there are no rates to sweep"};
    }
    if (fastest <= slowest) {
      print_stderr("one request at a time is as fast as many: there is nothing between them\n");
      return {};
    }
    const auto size = static_cast<size_t>(flags_.sweep_size.value_or(kSweepSize));
    const std::string arrivals = flags_.strategy.empty() ? "constant" : flags_.strategy;
    for (const double rate : sweep_rates(slowest, fastest, size)) {
      if (auto measured = at_rate(rate, arrivals); !measured) return measured.error();
    }
    return {};
  }

  Result<void> synchronous() {
    PointSpec spec = spec_of("synchronous");
    spec.load.kind = LoadKind::kConcurrency;
    spec.load.max_concurrency = 1;
    return measure(spec);
  }

  Result<void> throughput() {
    PointSpec spec = spec_of("throughput");
    spec.load.kind = LoadKind::kConcurrency;
    spec.load.max_concurrency = flags_.max_concurrency.value_or(kThroughputConcurrency);
    return measure(spec);
  }

  Result<void> concurrent(double streams) {
    PointSpec spec = spec_of(fmt::format("concurrent@{}", streams));
    spec.load.kind = LoadKind::kConcurrency;
    spec.load.max_concurrency = static_cast<int64_t>(streams);
    spec.rampup_seconds = flags_.rampup_seconds.value_or(0.0);
    return measure(spec);
  }

  Result<void> at_rate(double rate, const std::string& arrivals) {
    PointSpec spec = spec_of(fmt::format("{}@{:.2f}", arrivals, rate));
    spec.load.kind = arrivals == "poisson" ? LoadKind::kGamma : LoadKind::kConstant;
    spec.load.request_rate = rate;
    return measure(spec);
  }

  PointSpec spec_of(std::string name) const {
    PointSpec spec;
    spec.name = std::move(name);
    spec.dataset = flags_.bench.dataset;
    set_default_lengths(spec.dataset, 512, 128);
    spec.num_prompts = flags_.bench.load.num_prompts;
    spec.max_seconds = flags_.bench.load.max_seconds;
    if (!spec.num_prompts && !spec.max_seconds) spec.max_seconds = kMaxSecondsDefault;
    return spec;
  }

  Result<void> measure(const PointSpec& spec) {
    if (run_.is_interrupted()) return {};
    const Result<const PointRecord*> record = run_.measure(server_, spec);
    if (!record) return record.error();
    return {};
  }

  double last_rate() const {
    if (run_.num_points() == 0) return 0.0;
    return run_.last_summary(Formulas::kGuidellm).request_throughput.value_or(0.0);
  }

  const SweepFlags& flags_;
  BenchRun& run_;
  MeasuredServer& server_;
};

// What one type alone has a use for is refused with another.
Result<void> check_type_flags(const SweepFlags& flags) {
  const std::string why = "has no meaning for --rate-type " + flags.rate_type;
  const bool is_sweep = flags.rate_type == "sweep";
  const bool has_throughput = is_sweep || flags.rate_type == "throughput";
  const bool is_concurrent = flags.rate_type == "concurrent";
  Result<void> checked = refuse_given(
      {{"--sweep-size", !is_sweep && flags.sweep_size},
       {"--strategy-type", !is_sweep && !flags.strategy.empty()},
       {"--max-concurrency", !has_throughput && flags.max_concurrency},
       {"--rampup-sec", !is_concurrent && flags.rampup_seconds}},
      why
  );
  if (!checked) return checked;
  constexpr double kStreamsMax = 1e6;
  for (const double rate : flags.rates) {
    if (!is_concurrent || (rate == std::floor(rate) && rate <= kStreamsMax)) continue;
    return invalid_argument(
        fmt::format("--rate is {}: --rate-type concurrent takes a whole number of streams", rate),
        "--rate"
    );
  }
  if (!(flags.rampup_seconds.value_or(0.0) >= 0.0 && flags.rampup_seconds.value_or(0.0) < 1e7)) {
    return invalid_argument("--rampup-sec must be 0 or more", "--rampup-sec");
  }
  return {};
}

Result<void> check(const SweepFlags& flags) {
  constexpr std::string_view kTypes[] = {
      "sweep", "synchronous", "throughput", "concurrent", "constant", "poisson"};
  if (std::ranges::find(kTypes, flags.rate_type) == std::end(kTypes)) {
    return invalid_argument(
        fmt::format(
            "--rate-type: there is no '{}'; expected sweep, synchronous, throughput, concurrent, "
            "constant or poisson",
            flags.rate_type
        ),
        "--rate-type"
    );
  }
  const bool needs_rates = flags.rate_type == "concurrent" || flags.rate_type == "constant" ||
                           flags.rate_type == "poisson";
  if (needs_rates == flags.rates.empty()) {
    return invalid_argument(
        needs_rates ? fmt::format("--rate-type {} needs --rate", flags.rate_type)
                    : fmt::format("--rate has no meaning for --rate-type {}", flags.rate_type),
        "--rate"
    );
  }
  const bool has_infinity = std::ranges::any_of(flags.rates, [](double r) { return r > 1e9; });
  if (has_infinity) return invalid_argument("--rate must be finite", "--rate");
  const int64_t sweep_size = flags.sweep_size.value_or(kSweepSize);
  if (sweep_size < 2 || sweep_size > 1000) {
    return invalid_argument("--sweep-size must be 2 to 1000", "--sweep-size");
  }
  if (!flags.strategy.empty() && flags.strategy != "constant" && flags.strategy != "poisson") {
    return invalid_argument("--strategy-type must be constant or poisson", "--strategy-type");
  }
  if (flags.max_concurrency.value_or(1) < 1) {
    return invalid_argument("--max-concurrency must be at least 1", "--max-concurrency");
  }
  if (auto checked = check_type_flags(flags); !checked) return checked;
  return check_output_files(flags.bench.output, {{"--json", flags.json}});
}

Result<int> sweep(const SweepFlags& flags, const std::string& command) {
  if (auto checked = check(flags); !checked) return checked.error();
  Result<std::unique_ptr<BenchRun>> run = BenchRun::start(flags.bench, command);
  if (!run) return run.error();
  Result<MeasuredServer> server = MeasuredServer::connect(flags.bench, {}, {});
  if (!server) return server.error();
  (*run)->note(Sweep(flags, **run, *server).run());
  const std::string text = guidellm_markdown(
      (*run)->summaries(Formulas::kGuidellm01), {.shows_all_tables = flags.shows_all_tables}
  );
  (*run)->write(flags.bench.output.report, text);
  if (!flags.json.empty()) {
    (*run)->write(
        flags.json, guidellm_json((*run)->summaries(Formulas::kGuidellm), (*run)->records())
    );
  }
  return (*run)->finish("Sweep of " + server->framework);
}

}  // namespace

int run_sweep(std::vector<std::string> arguments) {
  SweepFlags flags;
  CommandLine line("bench sweep", "Sweeps from one request at a time to saturation, as guidellm.");
  add_flags(line, flags);
  const std::string command = command_text("millrace bench sweep", arguments);
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  const Result<int> exit_code = sweep(flags, command);
  return exit_code ? *exit_code : report("bench sweep", exit_code.error());
}

}  // namespace millrace::bench
