// The subcommands. Each takes the arguments after its name and returns the exit code: 0, 1 for a
// failure (one line on stderr says which), 2 for a wrong command line; more where --help says so.
#pragma once

#include <string>
#include <vector>

namespace millrace {

int run_serve(std::vector<std::string> arguments);
int run_chat(std::vector<std::string> arguments);
int run_generate(std::vector<std::string> arguments);
int run_run_batch(std::vector<std::string> arguments);
int run_tokenize(std::vector<std::string> arguments);
int run_detokenize(std::vector<std::string> arguments);
int run_template(std::vector<std::string> arguments);
int run_quantize(std::vector<std::string> arguments);
int run_plan(std::vector<std::string> arguments);
int run_replay(std::vector<std::string> arguments);
int run_bench(std::vector<std::string> arguments);

}  // namespace millrace
