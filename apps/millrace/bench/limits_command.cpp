// `millrace bench limits`: what this machine can do at most, to set beside any engine's speed.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/thread_pool.h"
#include "bench/commands.h"
#include "command_line.h"
#include "failure.h"
#include "kernels/machine_limits.h"
#include "model_flags.h"

namespace millrace::bench {
namespace {

struct LimitsFlags {
  int32_t num_threads = 0;
  int32_t num_repetitions = 5;
  bool json = false;
};

// Lowest and highest of the repetitions: on a shared machine they are far apart.
struct Range {
  double lowest = 0.0;
  double mean = 0.0;
  double highest = 0.0;
};

template <class F>
Range measure(int32_t num_repetitions, F measure_once) {
  Range range;
  for (int32_t i = 0; i < num_repetitions; ++i) {
    const double value = measure_once();
    range.lowest = i == 0 ? value : std::min(range.lowest, value);
    range.highest = std::max(range.highest, value);
    range.mean += value / num_repetitions;
  }
  return range;
}

json::object to_json(const Range& range) {
  return {{"lowest", range.lowest}, {"mean", range.mean}, {"highest", range.highest}};
}

void print_row(const std::string& name, const char* unit, const Range& range) {
  fmt::print(
      "| {} | {} | {:.3f} | {:.3f} | {:.3f} |\n",
      name,
      unit,
      range.lowest,
      range.mean,
      range.highest
  );
}

Result<void> limits(const LimitsFlags& flags) {
  const Result<size_t> num_threads = num_threads_of_flag(flags.num_threads);
  if (!num_threads) return num_threads.error();
  if (flags.num_repetitions < 1 || flags.num_repetitions > 100000) {
    return invalid_argument("--repetitions must be 1 to 100000", "--repetitions");
  }
  ThreadPool pool(*num_threads);
  Result<MachineLimits> machine = MachineLimits::prepare(pool, best_isa());
  if (!machine) return machine.error();
  const Range read = measure(flags.num_repetitions, [&] {
    return machine->measure_read_bytes_per_second() * 1e-9;
  });
  std::vector<std::pair<std::string, Range>> peaks;
  for (const DotInstruction instruction : supported_dot_instructions()) {
    peaks.emplace_back(name_of(instruction), measure(flags.num_repetitions, [&] {
                         return machine->measure_operations_per_second(instruction) * 1e-12;
                       }));
  }

  if (flags.json) {
    json::object by_name;
    for (const auto& [name, range] : peaks) by_name[name] = to_json(range);
    const json::object object = {
        {"threads", pool.num_threads()},
        {"read_gb_per_s", to_json(read)},
        {"peak_tflop_per_s", std::move(by_name)}};
    fmt::print("{}\n", to_json_text(object));
    return {};
  }
  fmt::print("| {} threads | unit | lowest | mean | highest |\n", pool.num_threads());
  fmt::print("|---|---|---|---|---|\n");
  print_row("memory read", "GB/s", read);
  for (const auto& [name, range] : peaks) print_row(name, "Tflop/s", range);
  return {};
}

}  // namespace

int run_limits(std::vector<std::string> arguments) {
  LimitsFlags flags;
  CommandLine line("bench limits", "Measures what this machine can do at most.");
  line.add("--threads", flags.num_threads, "that read and compute; 0: one per CPU");
  line.add("--repetitions", flags.num_repetitions, "of each measurement (5)");
  line.add_flag("--json", flags.json, "print a JSON object");
  line.set_footer(
      "Reading memory in sequence, far more than the caches hold, and each instruction of this "
      "processor that\n"
      "multiplies and adds, in registers alone; a multiply-add is two operations."
  );
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  return report("bench limits", limits(flags));
}

}  // namespace millrace::bench
