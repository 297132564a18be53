// The subcommands of `millrace bench`. As in commands.h: each takes the arguments after its name
// and returns the exit code.
#pragma once

#include <string>
#include <vector>

namespace millrace::bench {

int run_serve(std::vector<std::string> arguments);
int run_engine(std::vector<std::string> arguments);
int run_limits(std::vector<std::string> arguments);
int run_sweep(std::vector<std::string> arguments);
int run_concurrency(std::vector<std::string> arguments);
int run_rate(std::vector<std::string> arguments);
int run_grid(std::vector<std::string> arguments);
int run_capacity(std::vector<std::string> arguments);
int run_compare(std::vector<std::string> arguments);
int run_report(std::vector<std::string> arguments);
int run_import(std::vector<std::string> arguments);
int run_calibrate(std::vector<std::string> arguments);
int run_mock(std::vector<std::string> arguments);

}  // namespace millrace::bench
