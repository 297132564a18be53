// millrace: serves large language models and measures LLM servers. Finds the subcommand and runs
// it.
#include <fmt/format.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "command_line.h"
#include "commands.h"
#include "cuda/runtime.h"
#include "terminal.h"

namespace millrace {
namespace {

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(std::vector<std::string>);
};

int run_version(std::vector<std::string> arguments) {
  if (!arguments.empty()) {
    print_stderr("millrace version: '{}' is one argument too many\n", arguments.front());
    return 2;
  }
  fmt::print("millrace {}\nCUDA backend: {}\n", MILLRACE_VERSION, cuda::describe_build());
  return 0;
}

constexpr std::array kCommands = {
    Command{"serve", "serve a model to any OpenAI-compatible client", run_serve},
    Command{"generate", "answer prompts from the command line or a JSONL file", run_generate},
    Command{"run-batch", "answer a file of requests in OpenAI's batch format", run_run_batch},
    Command{"bench", "measure any OpenAI-compatible server", run_bench},
    Command{"chat", "talk with a model, here or on a server (--url)", run_chat},
    Command{"tokenize", "text to token ids", run_tokenize},
    Command{"detokenize", "token ids to text", run_detokenize},
    Command{"template", "render conversations through the model's chat template", run_template},
    Command{
        "quantize", "round a model to 8 or 4 bits, into a directory to be served", run_quantize},
    Command{"plan", "bytes of weights and KV cache, and how many sequences fit", run_plan},
    Command{"replay", "run the scheduler again on what --record wrote", run_replay},
    Command{"version", "print the version, and what the CUDA backend was built for", run_version},
};

void print_usage(std::FILE* file) {
  fmt::print(file, "usage: millrace COMMAND [MODEL] [FLAGS]\n\n");
  for (const Command& command : kCommands) {
    fmt::print(file, "  {:<12} {}\n", command.name, command.summary);
  }
  fmt::print(
      file,
      "\nMODEL is a Hugging Face directory, a .gguf file, or smollm2 (the default).\n"
      "`millrace COMMAND --help` lists a command's flags.\n"
  );
}

int unknown_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  const std::optional<std::string> meant = nearest_match(name, names);
  print_stderr(
      "millrace: there is no command '{}'{}\n",
      name,
      meant ? fmt::format("; did you mean '{}'?", *meant) : "; `millrace --help` lists them"
  );
  return 2;
}

// What was printed may still lie in a buffer, and a full disk or a closed pipe shows here first.
int check_output(int exit_code) {
  const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (is_written || exit_code != 0) return exit_code;
  print_stderr("millrace: the output could not be written\n");
  return 1;
}

int run(int argc, char** argv) {
  if (argc < 2) {
    print_usage(stderr);
    return 2;
  }
  const std::string name = argv[1];
  if (name == "--help" || name == "-h" || name == "help") {
    print_usage(stdout);
    return 0;
  }
  if (name == "--version") return run_version({});
  for (const Command& command : kCommands) {
    if (command.name != name) continue;
    const int exit_code = command.run(std::vector<std::string>(argv + 2, argv + argc));
    return check_output(exit_code);
  }
  return unknown_command(name);
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a failed write, seen where it happens
  try {
    return millrace::run(argc, argv);
  } catch (const std::exception& error) {  // what libraries throw; millrace itself throws nothing
    millrace::print_stderr("millrace: {}\n", error.what());
    return 1;
  }
}
