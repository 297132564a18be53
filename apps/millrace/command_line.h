// The command line as every subcommand has it: flags in vLLM's spelling (`-` and `_` alike), each
// also as an environment variable MILLRACE_<NAME> and as a key of `--config file.yaml`. A flag wins
// over the file, the file over the environment.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace millrace {

class CommandLine {
 public:
  // `name`: the subcommand; `description`: what --help says first.
  CommandLine(std::string name, std::string description);

  // `--name VALUE`; `names` may hold a short form: "--prompt,-p".
  template <class T>
  CLI::Option* add(const std::string& names, T& variable, const std::string& help) {
    return with_environment(app_.add_option(names, variable, help));
  }

  // A switch without a value.
  CLI::Option* add_flag(const std::string& names, bool& variable, const std::string& help);

  CLI::Option* add_switch(
      const std::string& names, std::function<void()> take, const std::string& help
  );

  // A count or a number of bytes: 4096, 32k (thousands), 32K (1024s), 2.5G.
  CLI::Option* add_size(
      const std::string& names, std::optional<int64_t>& variable, const std::string& help
  );

  // `--name TEXT`, handed to `take` as it stands and as often as it is given; an error becomes the
  // parser's.
  CLI::Option* add_callback(
      const std::string& names,
      std::function<Result<void>(const std::string& text)> take,
      const std::string& help
  );

  // An argument without a dash, which may be left out.
  CLI::Option* add_positional(
      const std::string& name, std::string& variable, const std::string& help
  );

  // The flags so far but --help, --config and arguments without a dash.
  std::vector<CLI::Option*> flags();

  // Text below the flags of --help: examples.
  void set_footer(const std::string& text) { app_.footer(text); }

  // nullopt: go on. Otherwise the exit code: help was printed (0) or one line of what is wrong (2).
  std::optional<int> parse(std::vector<std::string> arguments);

 private:
  CLI::Option* with_environment(CLI::Option* option);
  std::string config_message(const std::string& message) const;
  std::string unknown_flag_message(const std::string& argument) const;

  CLI::App app_;
};

// "32k" is 32,000, "32K" 32,768; also m/M, g/G, t/T and fractions, as in vLLM.
Result<int64_t> parse_size(const std::string& text);

// The name among `candidates` that most likely was meant, if any is near enough.
std::optional<std::string> nearest_match(
    const std::string& name, const std::vector<std::string>& candidates
);

}  // namespace millrace
