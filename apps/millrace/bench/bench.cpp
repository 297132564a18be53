// `millrace bench`: measures LLM servers and engines. Finds the subcommand and runs it.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "bench/commands.h"
#include "command_line.h"
#include "commands.h"
#include "terminal.h"

namespace millrace {
namespace {

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(std::vector<std::string>);
};

constexpr std::array kCommands = {
    Command{"engine", "prefill and decode in this process, beside the limits", bench::run_engine},
    Command{"serve", "one load on one server, with vLLM's and SGLang's flags", bench::run_serve},
    Command{
        "sweep", "from one request at a time to as many as go, as guidellm does", bench::run_sweep},
    Command{"concurrency", "input:output lengths by concurrency", bench::run_concurrency},
    Command{"rate", "several servers by request rate", bench::run_rate},
    Command{"grid", "batch / input / hit / output lengths; also without a server", bench::run_grid},
    Command{"capacity", "the most load that keeps to given latencies", bench::run_capacity},
    Command{"compare", "two servers in turn, with a paired test", bench::run_compare},
    Command{"report", "recorded points in any shape: markdown, CSV, JSON, HTML", bench::run_report},
    Command{
        "import", "results of other tools: read, and looked at with suspicion", bench::run_import},
    Command{"calibrate", "what this client adds to the times it measures", bench::run_calibrate},
    Command{"limits", "what this machine reads and computes at most", bench::run_limits},
    Command{"mock", "a server with exact times, to try things on", bench::run_mock},
};

void print_usage(std::FILE* file) {
  fmt::print(file, "usage: millrace bench COMMAND [FLAGS]\n\n");
  for (const Command& command : kCommands) {
    fmt::print(file, "  {:<12} {}\n", command.name, command.summary);
  }
  fmt::print(
      file,
      "\nEvery row has a verdict: ok, warn or invalid, with the reasons. `millrace bench COMMAND "
      "--help` lists\na command's flags; docs/guides/benchmarks.md says what the figures mean.\n"
  );
}

}  // namespace

int run_bench(std::vector<std::string> arguments) {
  if (arguments.empty()) {
    print_usage(stderr);
    return 2;
  }
  const std::string name = arguments.front();
  arguments.erase(arguments.begin());
  if (name == "--help" || name == "-h" || name == "help") {
    print_usage(stdout);
    return 0;
  }
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (command.name == name) return command.run(std::move(arguments));
    names.emplace_back(command.name);
  }
  const std::optional<std::string> meant = nearest_match(name, names);
  print_stderr(
      "millrace bench: there is no command '{}'{}\n",
      name,
      meant ? fmt::format("; did you mean '{}'?", *meant) : "; `millrace bench --help` lists them"
  );
  return 2;
}

}  // namespace millrace
