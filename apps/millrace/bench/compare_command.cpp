// `millrace bench compare`: two servers in alternating blocks over the same prompts.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "bench/bench_run.h"
#include "bench/commands.h"
#include "bench/environment.h"
#include "bench/flags.h"
#include "bench/frameworks.h"
#include "command_line.h"
#include "failure.h"
#include "report/report.h"
#include "results/paired_comparison.h"
#include "results/summarize.h"

namespace millrace::bench {
namespace {

constexpr int64_t kNumPromptsDefault = 20;  // of a block

struct CompareFlags {
  BenchFlags bench;
  std::vector<FrameworkFlag> frameworks;
  int64_t num_rounds = 8;
};

constexpr const char* kFooter =
    "Each round gives both servers the same load and prompts, in an order drawn anew, so that what "
    "the machine\n"
    "does meanwhile hits both. A difference is significant if Student's test on the rounds and one "
    "by flipping\n"
    "signs both say so at 95 %: six rounds at least. Nobody is faster where a round of either is "
    "invalid.\n"
    "\n"
    "Example:\n"
    "  millrace bench compare --framework a=http://127.0.0.1:8000 --framework "
    "b=http://127.0.0.1:8001 \\\n"
    "    --input-len 128 --output-len 32 --max-concurrency 4 --num-prompts 16 --rounds 8";

void add_flags(CommandLine& line, CompareFlags& flags) {
  add_target_flags(line, flags.bench.target, /*with_framework=*/false);
  add_framework_flag(line, flags.frameworks);
  add_dataset_flags(line, flags.bench);
  add_load_flags(line, flags.bench.load);
  add_limit_flags(line, flags.bench.load);
  add_output_flags(line, flags.bench.output);
  line.add("--rounds", flags.num_rounds, "blocks of each server (8)");
  line.set_footer(kFooter);
}

struct ComparedMetric {
  std::string_view name;
  std::string_view unit;
  // Lower is better. none: the row does not say.
  std::optional<double> (*value)(const PointSummary& row);
};

template <Metric metric>
std::optional<double> mean_of(const PointSummary& row) {
  const std::optional<Distribution>& distribution = row[metric];
  if (!distribution || distribution->count == 0) return std::nullopt;
  return distribution->mean;
}

std::optional<double> ms_per_output_token(const PointSummary& row) {
  if (!row.output_throughput || !(*row.output_throughput > 0.0)) return std::nullopt;
  return 1000.0 / *row.output_throughput;
}

constexpr std::array kMetrics = {
    ComparedMetric{"mean TTFT", "ms", mean_of<Metric::kTtft>},
    ComparedMetric{"mean TPOT", "ms", mean_of<Metric::kTpot>},
    ComparedMetric{"mean ITL", "ms", mean_of<Metric::kItl>},
    ComparedMetric{"mean E2E", "ms", mean_of<Metric::kE2e>},
    ComparedMetric{"time per output token of all", "ms", ms_per_output_token},
};

bool is_invalid(const PointSummary& row) {
  return row.verdict.trust() == Trust::kInvalid;
}

// `is_valid`: all rounds are; else nobody is called faster, since what fails requests is fast.
std::string comparison_line(
    const ComparedMetric& metric,
    std::span<const PointSummary> first,
    std::span<const PointSummary> second,
    bool is_valid
) {
  std::vector<PairedBlock> blocks;
  double sums[2] = {};
  for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    const std::optional<double> a = metric.value(first[i]);
    const std::optional<double> b = metric.value(second[i]);
    if (!a || !b) continue;
    blocks.push_back({.first = *a, .second = *b});
    sums[0] += *a;
    sums[1] += *b;
  }
  const std::optional<PairedComparison> result = compare_paired(blocks);
  if (!result) return fmt::format("| {} | - | - | N/A | - | - |\n", metric.name);
  const auto count = static_cast<double>(blocks.size());
  if (!is_valid) {
    return fmt::format(
        "| {} ({}) | {:.3f} | {:.3f} | N/A (invalid rounds) | - | - |\n",
        metric.name,
        metric.unit,
        sums[0] / count,
        sums[1] / count
    );
  }
  const std::string& name_a = first.front().plan.framework;
  const std::string& name_b = second.front().plan.framework;
  const Interval& interval = result->faster_percent_interval;
  return fmt::format(
      "| {} ({}) | {:.3f} | {:.3f} | {} | {:.2f} % ± {:.2f} | {} (p {:.3g}, {:.3g}) |\n",
      metric.name,
      metric.unit,
      sums[0] / count,
      sums[1] / count,
      result->faster == Faster::kTie ? "Tie" : (result->faster == Faster::kFirst ? name_a : name_b),
      result->faster_percent,
      (interval.high - interval.low) / 2.0,
      result->is_significant ? "significant" : "not significant",
      result->p_student,
      result->p_permutation
  );
}

// What makes rounds invalid. Warnings are left out: few samples are what a round is made of.
std::string invalid_lines(std::span<const PointSummary> rows) {
  std::string text;
  for (const PointSummary& row : rows) {
    for (const Finding& finding : row.verdict.findings) {
      if (finding.trust != Trust::kInvalid) continue;
      text += fmt::format("\n> {} invalid: {}\n", row.plan.name, finding.message);
    }
  }
  return text;
}

std::string comparison_text(
    std::span<const PointSummary> first, std::span<const PointSummary> second
) {
  if (first.empty() || second.empty()) return "nothing was measured\n";
  std::string text = fmt::format(
      "{} rounds\n\n| | {} | {} | Fastest | Faster by (%) | |\n|:--|--:|--:|:--|--:|:--|\n",
      std::min(first.size(), second.size()),
      first.front().plan.framework,
      second.front().plan.framework
  );
  const bool is_valid =
      std::ranges::none_of(first, is_invalid) && std::ranges::none_of(second, is_invalid);
  for (const ComparedMetric& metric : kMetrics) {
    text += comparison_line(metric, first, second, is_valid);
  }
  return text + invalid_lines(first) + invalid_lines(second);
}

PointSpec spec_of(const CompareFlags& flags, const MeasuredServer& server, int64_t round) {
  PointSpec spec;
  spec.name = fmt::format("{}, round {}", server.framework, round + 1);
  spec.load = load_of(flags.bench.load);
  spec.dataset = flags.bench.dataset;
  set_default_lengths(spec.dataset, 512, 128);
  spec.max_seconds = flags.bench.load.max_seconds;
  spec.num_prompts = flags.bench.load.num_prompts;
  if (!spec.num_prompts && !spec.max_seconds) spec.num_prompts = kNumPromptsDefault;
  return spec;
}

using Rows = std::array<std::vector<PointSummary>, 2>;  // of each server, by round

Result<void> measure_all(
    const CompareFlags& flags, BenchRun& run, std::vector<MeasuredServer>& servers, Rows& rows
) {
  for (int64_t round = 0; round < flags.num_rounds; ++round) {
    const auto number = static_cast<uint64_t>(round);
    const size_t first = random_bits(run.nonce(), number) & 1U;
    for (const size_t which : {first, 1 - first}) {
      if (run.is_interrupted()) return {};
      MeasuredServer& server = servers[which];
      auto record = run.measure(server, spec_of(flags, server, round), number);
      if (!record) return record.error();
      rows[which].push_back(run.last_summary(Formulas::kMillrace));
    }
  }
  return {};
}

Result<int> compare(const CompareFlags& flags, const std::string& command) {
  if (flags.frameworks.size() != 2) {
    return invalid_argument("give --framework NAME=URL twice", "--framework");
  }
  if (flags.num_rounds < 2) return invalid_argument("--rounds must be at least 2", "--rounds");
  Result<std::unique_ptr<BenchRun>> run = BenchRun::start(flags.bench, command);
  if (!run) return run.error();
  Result<std::vector<MeasuredServer>> servers = connect_all(flags.bench, flags.frameworks);
  if (!servers) return servers.error();
  Rows rows;
  (*run)->note(measure_all(flags, **run, *servers, rows));
  (*run)->write(flags.bench.output.report, comparison_text(rows[0], rows[1]));
  return (*run)->finish(fmt::format("{} and {}", (*servers)[0].framework, (*servers)[1].framework));
}

}  // namespace

int run_compare(std::vector<std::string> arguments) {
  CompareFlags flags;
  CommandLine line("bench compare", "Measures two servers in turn and tests the difference.");
  add_flags(line, flags);
  const std::string command = command_text("millrace bench compare", arguments);
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  const Result<int> exit_code = compare(flags, command);
  return exit_code ? *exit_code : report("bench compare", exit_code.error());
}

}  // namespace millrace::bench
