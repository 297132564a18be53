// The command line as every subcommand has it: flags in vLLM's spelling (`-` and `_` alike), each
// also as an environment variable MILLRACE_<NAME> and as a key of `--config file.yaml`. A flag wins
// over the file, the file over the environment.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace CLI {  // of which only command_line.cpp sees more: it takes 10 s to compile
class App;
class Option;
}  // namespace CLI

namespace millrace {

// A flag or an argument of a CommandLine, for what else is to be said of it.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}

  bool is_named(const std::string& name) const;  // "--seed"

  Flag required();
  Flag needs(Flag other);
  Flag excludes(Flag other);
  Flag set_type_name(const std::string& name);    // what --help shows of its value: "SIZE"
  Flag set_environment(const std::string& name);  // instead of MILLRACE_<NAME>

 private:
  CLI::Option* option_;
};

class CommandLine {
 public:
  // `name`: the subcommand; `description`: what --help says first.
  CommandLine(std::string name, std::string description);
  ~CommandLine();

  // `--name VALUE`; `names` may hold a short form: "--prompt,-p". For the types that
  // command_line.cpp lists.
  template <class T>
  Flag add(const std::string& names, T& variable, const std::string& help);

  // A switch without a value.
  Flag add_flag(const std::string& names, bool& variable, const std::string& help);

  Flag add_switch(const std::string& names, std::function<void()> take, const std::string& help);

  // A count or a number of bytes: 4096, 32k (thousands), 32K (1024s), 2.5G.
  Flag add_size(
      const std::string& names, std::optional<int64_t>& variable, const std::string& help
  );

  // `--name TEXT`, handed to `take` as it stands; an error becomes the parser's.
  Flag add_value(
      const std::string& names,
      std::function<Result<void>(const std::string& text)> take,
      const std::string& help
  );

  // The same for a flag that may be given several times, as often as it is.
  Flag add_callback(
      const std::string& names,
      std::function<Result<void>(const std::string& text)> take,
      const std::string& help
  );

  // An argument without a dash, which may be left out.
  Flag add_positional(const std::string& name, std::string& variable, const std::string& help);

  // The flags so far but --help, --config and arguments without a dash.
  std::vector<Flag> flags();

  // Text below the flags of --help: examples.
  void set_footer(const std::string& text);

  // nullopt: go on. Otherwise the exit code: help was printed (0) or one line of what is wrong (2).
  std::optional<int> parse(std::vector<std::string> arguments);

 private:
  std::string config_message(const std::string& message) const;
  std::string unknown_flag_message(const std::string& argument) const;

  std::unique_ptr<CLI::App> app_;
};

// "32k" is 32,000, "32K" 32,768; also m/M, g/G, t/T and fractions, as in vLLM.
Result<int64_t> parse_size(const std::string& text);

// The name among `candidates` that most likely was meant, if any is near enough.
std::optional<std::string> nearest_match(
    const std::string& name, const std::vector<std::string>& candidates
);

}  // namespace millrace
