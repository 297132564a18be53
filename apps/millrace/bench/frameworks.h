// Several servers side by side: --framework NAME=URL.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "bench/flags.h"
#include "bench/measured_server.h"
#include "command_line.h"

namespace millrace::bench {

struct FrameworkFlag {
  std::string name;
  std::string url;
};

void add_framework_flag(CommandLine& line, std::vector<FrameworkFlag>& frameworks);

// Connects to all; without any, to the one that --base-url or --port names. The error names the
// server.
Result<std::vector<MeasuredServer>> connect_all(
    const BenchFlags& flags, const std::vector<FrameworkFlag>& frameworks
);

}  // namespace millrace::bench
