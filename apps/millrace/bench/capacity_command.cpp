// `millrace bench capacity`: the most load at which a server keeps to given latencies, and the knee
// of its throughput.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_run.h"
#include "bench/capacity_search.h"
#include "bench/commands.h"
#include "bench/environment.h"
#include "bench/flags.h"
#include "command_line.h"
#include "failure.h"
#include "report/report.h"

namespace millrace::bench {
namespace {

constexpr int kNumExtensions = 2;  // an undecided point is measured again, twice as long each time
constexpr int64_t kNumPromptsMin = 50;  // of a rate: fewer say little of any percentile
constexpr double kLoadMax = 1e6;

struct CapacityFlags {
  BenchFlags bench;
  std::string by = "rate";
  double start = 1.0;
  double load_max = kLoadMax;
  double rank = 99.0;
  double tolerance_percent = 5.0;
  double seconds = 30.0;
};

constexpr const char* kFooter =
    "Doubles the load until a goal is missed, then bisects. A point whose interval lies on both "
    "sides of a goal\n"
    "is measured again for longer. A point with failed or unfinished requests is missed, and so is "
    "one that is\n"
    "invalid; where that is the client's doing it is measured again, and then ends the search. By "
    "rate a point\n"
    "has at least 50 requests, however long they take.\n"
    "\n"
    "Example:\n"
    "  millrace bench capacity --port 8000 --goodput 'ttft:500 tpot:50' --percentile 95 "
    "--input-len 512 --output-len 64";

void add_flags(CommandLine& line, CapacityFlags& flags) {
  add_target_flags(line, flags.bench.target);
  add_dataset_flags(line, flags.bench);
  line.add("--by", flags.by, "what grows: rate (open loop, Poisson) or concurrency (rate)");
  line.add("--start", flags.start, "first load (1)");
  line.add("--max-load", flags.load_max, "never more than this");
  line.add("--percentile", flags.rank, "of each metric that must keep to its goal (99)");
  line.add("--tolerance", flags.tolerance_percent, "percent between met and missed (5)");
  line.add("--seconds", flags.seconds, "of a point (30); by rate 50 requests at least");
  add_limit_flags(line, flags.bench.load);
  add_output_flags(line, flags.bench.output);
  line.set_footer(kFooter);
}

Result<void> check(const CapacityFlags& flags) {
  if (!flags.bench.output.goals.any()) {
    return invalid_argument("give goals, such as --goodput 'ttft:500 tpot:50'", "--goodput");
  }
  if (flags.by != "rate" && flags.by != "concurrency") {
    return invalid_argument("--by must be rate or concurrency", "--by");
  }
  if (!(flags.rank >= 0.0 && flags.rank <= 100.0)) {
    return invalid_argument("--percentile must be 0 to 100", "--percentile");
  }
  if (!(flags.start > 0.0) || !(flags.load_max >= flags.start)) {
    return invalid_argument("--start must be above 0 and at most --max-load", "--start");
  }
  if (flags.load_max > kLoadMax) {
    return invalid_argument(fmt::format("--max-load must be at most {:g}", kLoadMax), "--max-load");
  }
  if (!(flags.seconds > 0.0) || !(flags.tolerance_percent > 0.0)) {
    return invalid_argument("--seconds and --tolerance must be above 0", "--seconds");
  }
  return refuse_given(
      {{"--max-seconds", flags.bench.load.max_seconds.has_value()}},
      "has no meaning here: --seconds says how long a point takes"
  );
}

// Measures one load, for longer while it is undecided or says nothing of the server.
class CapacityPoint {
 public:
  CapacityPoint(const CapacityFlags& flags, BenchRun& run, MeasuredServer& server)
      : flags_(flags), run_(run), server_(server) {}

  // Never kUndecided.
  Result<GoalState> measure(double load) {
    double seconds = flags_.seconds;
    for (int extension = 0;; ++extension, seconds *= 2.0) {
      const Result<const PointRecord*> record = run_.measure(server_, spec_of(load, seconds));
      if (!record) return record.error();
      const PointSummary row = run_.last_summary(Formulas::kMillrace);
      const GoalState state = judge_goals(row, flags_.bench.output.goals, flags_.rank);
      if (state == GoalState::kMet || state == GoalState::kMissed) return state;
      if (extension < kNumExtensions && !run_.is_interrupted()) continue;
      if (state == GoalState::kUnknown) return state;
      return meets_goals(row, flags_.bench.output.goals, flags_.rank) ? GoalState::kMet
                                                                      : GoalState::kMissed;
    }
  }

 private:
  PointSpec spec_of(double load, double seconds) const {
    PointSpec spec;
    spec.dataset = flags_.bench.dataset;
    set_default_lengths(spec.dataset, 512, 128);
    if (flags_.by == "rate") {
      spec.name = fmt::format("rate {:.3g}", load);
      spec.load.kind = LoadKind::kGamma;
      spec.load.request_rate = load;
      spec.num_prompts = std::max(kNumPromptsMin, static_cast<int64_t>(load * seconds));
    } else {
      spec.name = fmt::format("concurrency {:.0f}", load);
      spec.load.kind = LoadKind::kConcurrency;
      spec.load.max_concurrency = static_cast<int64_t>(load);
      spec.max_seconds = seconds;
    }
    if (flags_.bench.load.num_prompts) spec.num_prompts = flags_.bench.load.num_prompts;
    return spec;
  }

  const CapacityFlags& flags_;
  BenchRun& run_;
  MeasuredServer& server_;
};

std::string_view unit_of(const CapacityFlags& flags) {
  return flags.by == "rate" ? "requests/s" : "requests at once";
}

double load_of(const PointSummary& row) {
  if (row.plan.load.kind == LoadKind::kGamma) return row.plan.load.request_rate;
  return static_cast<double>(row.plan.load.max_concurrency.value_or(0));
}

std::string text_of(const Finding& finding) {
  return fmt::format("{}, {}", finding.code, finding.message);
}

// Why the search ended before it was over; empty: it did not.
std::string early_end_text(const std::vector<PointSummary>& rows, bool is_interrupted) {
  if (is_interrupted) return "interrupted";
  const Finding* spoiled = rows.empty() ? nullptr : spoiling_finding(rows.back());
  if (spoiled == nullptr) return {};
  return fmt::format("{} says nothing of the server: {}", rows.back().plan.name, text_of(*spoiled));
}

// Why the least load that was too much was; empty: its times were too long.
std::string missed_text(const CapacitySearch& search, const std::vector<PointSummary>& rows) {
  for (const PointSummary& row : rows) {
    if (load_of(row) != search.least_missed() || row.verdict.trust() != Trust::kInvalid) continue;
    return fmt::format("{} is invalid: {}", row.plan.name, text_of(row.verdict.findings.front()));
  }
  return {};
}

std::string capacity_text(
    const CapacityFlags& flags,
    const CapacitySearch& search,
    const std::vector<PointSummary>& rows,
    bool is_interrupted
) {
  std::string reason = early_end_text(rows, is_interrupted);
  std::string text = "capacity: ";
  if (search.most_met()) {
    text += fmt::format(
        "{:.4g} {} (p{:g} within the goals; {})",
        *search.most_met(),
        unit_of(flags),
        flags.rank,
        search.least_missed() ? fmt::format("missed at {:.4g}", *search.least_missed())
                              : "not measured beyond"
    );
  } else {
    text += reason.empty() ? "none of the measured loads keeps to the goals" : "not found";
  }
  if (reason.empty()) reason = missed_text(search, rows);
  return reason.empty() ? text + "\n" : text + "; " + reason + "\n";
}

std::string knee_text(const CapacityFlags& flags, const std::vector<PointSummary>& rows) {
  std::vector<std::pair<double, double>> curve;
  for (const PointSummary& row : rows) {
    if (row.output_throughput && row.verdict.trust() != Trust::kInvalid) {
      curve.emplace_back(load_of(row), *row.output_throughput);
    }
  }
  const std::optional<double> knee = find_knee(std::move(curve));
  if (!knee) return {};
  return fmt::format("knee: {:.4g} {}; beyond it throughput hardly grows\n", *knee, unit_of(flags));
}

Result<void> measure_all(CapacitySearch& search, CapacityPoint point, const BenchRun& run) {
  while (const std::optional<double> load = search.next()) {
    const Result<GoalState> state = point.measure(*load);
    if (!state) return state.error();
    if (run.is_interrupted() || *state == GoalState::kUnknown) break;
    search.note(*load, *state == GoalState::kMet);
  }
  return {};
}

Result<int> find_capacity(const CapacityFlags& flags, const std::string& command) {
  if (auto checked = check(flags); !checked) return checked.error();
  BenchFlags bench = flags.bench;
  bench.output.metric_percentiles.push_back(flags.rank);
  Result<std::unique_ptr<BenchRun>> run = BenchRun::start(bench, command);
  if (!run) return run.error();
  Result<MeasuredServer> server = MeasuredServer::connect(bench, {}, {});
  if (!server) return server.error();
  CapacitySearch search(
      {.start = flags.start,
       .load_max = flags.load_max,
       .tolerance = flags.tolerance_percent / 100.0,
       .is_whole = flags.by == "concurrency"}
  );
  (*run)->note(measure_all(search, CapacityPoint(flags, **run, *server), **run));
  const std::vector<PointSummary> rows = (*run)->summaries(Formulas::kMillrace);
  const std::string text = markdown_table(rows, {}) + "\n" +
                           capacity_text(flags, search, rows, (*run)->is_interrupted()) +
                           knee_text(flags, rows);
  (*run)->write(flags.bench.output.report, text);
  return (*run)->finish("Capacity of " + server->framework);
}

}  // namespace

int run_capacity(std::vector<std::string> arguments) {
  CapacityFlags flags;
  CommandLine line("bench capacity", "Finds the most load that keeps to given latencies.");
  add_flags(line, flags);
  const std::string command = command_text("millrace bench capacity", arguments);
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  const Result<int> exit_code = find_capacity(flags, command);
  return exit_code ? *exit_code : report("bench capacity", exit_code.error());
}

}  // namespace millrace::bench
