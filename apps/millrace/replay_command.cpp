// `millrace replay`: does what a recording says with the scheduler alone, and compares the plans.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "command_line.h"
#include "commands.h"
#include "engine/step_replay.h"
#include "failure.h"
#include "jsonl_input.h"
#include "terminal.h"

namespace millrace {
namespace {

constexpr size_t kLineBytesMax = size_t{64} << 20;  // a prompt of five million tokens

struct ReplayFlags {
  std::string file;
  bool no_check = false;
};

constexpr const char* kFooter =
    "A recording is what `serve`, `generate` and `run-batch` write with --record FILE: each call "
    "of "
    "the\n"
    "scheduler and each plan that came out. No model is needed. A recording holds the token ids of "
    "the\n"
    "prompts and answers: keep it as you keep those.\n"
    "\n"
    "Exit code: 0 the same plans came out, 1 another one did (both are printed) or the recording "
    "cannot\n"
    "be read, 2 wrong command line.\n"
    "\n"
    "Example:\n"
    "  millrace generate --prompt \"Hello\" --record steps.jsonl && millrace replay steps.jsonl";

double microseconds(Duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

void print_summary(ReplaySummary summary) {
  const SchedulerStats& stats = summary.scheduler;
  fmt::print(
      "{} steps, {} requests, {} tokens computed ({} of them again), {} output tokens\n"
      "{} preemptions, {} of {} prompt tokens found in the prefix cache\n",
      summary.num_steps,
      summary.num_requests,
      stats.num_tokens_computed,
      stats.num_tokens_recomputed,
      stats.num_output_tokens,
      stats.num_preemptions,
      stats.num_prefix_hits,
      stats.num_prefix_queries
  );
  std::vector<Duration>& times = summary.step_times;
  if (times.empty()) return;
  std::ranges::sort(times);
  const Duration total = std::accumulate(times.begin(), times.end(), Duration{0});
  const size_t last = times.size() - 1;
  fmt::print(
      "{:.1f} us a step of the scheduler (p50 {:.1f}, p99 {:.1f})\n",
      microseconds(total) / static_cast<double>(times.size()),
      microseconds(times[last / 2]),
      microseconds(times[last * 99 / 100])
  );
}

Error error_at(const JsonlInput& input, const JsonlLine& line, const std::string& message) {
  return invalid_argument(fmt::format("{}:{}: {}", input.name(), line.number, message));
}

Result<void> take(StepReplay& replay, const JsonlInput& input, const JsonlLine& line) {
  if (line.kind == JsonlLine::Kind::kTooLong) {
    return error_at(input, line, fmt::format("the line is longer than {} bytes", kLineBytesMax));
  }
  const Result<void> taken = replay.take(line.text);
  if (taken) return {};
  if (const auto& difference = replay.difference()) {
    print_stderr("recorded: {}\ncomputed: {}\n", difference->recorded, difference->computed);
  } else if (!line.is_ended) {
    return error_at(input, line, "the recording is cut short: " + taken.error().message);
  }
  return error_at(input, line, taken.error().message);
}

Result<void> replay_file(const ReplayFlags& flags) {
  Result<JsonlInput> input = JsonlInput::open(flags.file, kLineBytesMax);
  if (!input) return input.error();
  StepReplay replay({.checks_invariants = !flags.no_check});
  while (true) {
    const Result<JsonlLine> line = input->next();
    if (!line) return line.error();
    if (line->kind == JsonlLine::Kind::kEnd) break;
    if (auto taken = take(replay, *input, *line); !taken) return taken;
  }
  if (!replay.has_begun()) {
    return invalid_argument(fmt::format("'{}' is empty: expected a recording", input->name()));
  }
  print_summary(replay.summary());
  return {};
}

}  // namespace

int run_replay(std::vector<std::string> arguments) {
  ReplayFlags flags;
  CommandLine line(
      "replay", "Runs the scheduler on a recording and checks that the same plans come out."
  );
  line.add_positional("FILE", flags.file, "a recording; - is stdin").required();
  line.add_flag("--no-check", flags.no_check, "do not check the scheduler's books in each step");
  line.set_footer(kFooter);
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  return report("replay", replay_file(flags));
}

}  // namespace millrace
