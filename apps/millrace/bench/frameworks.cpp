#include "bench/frameworks.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/flag_values.h"

namespace millrace::bench {

void add_framework_flag(CommandLine& line, std::vector<FrameworkFlag>& frameworks) {
  line.add_callback(
      "--framework",
      [&frameworks](const std::string& text) -> Result<void> {
        Result<std::pair<std::string, std::string>> pair = parse_assignment(text);
        if (!pair) return pair.error();
        const bool is_known = std::ranges::any_of(frameworks, [&](const FrameworkFlag& flag) {
          return flag.name == pair->first;
        });
        if (is_known) return invalid_argument(fmt::format("'{}' is there twice", pair->first));
        frameworks.push_back({std::move(pair->first), std::move(pair->second)});
        return {};
      },
      "NAME=URL of a server; several times"
  );
}

Result<std::vector<MeasuredServer>> connect_all(
    const BenchFlags& flags, const std::vector<FrameworkFlag>& frameworks
) {
  std::vector<FrameworkFlag> wanted = frameworks;
  if (wanted.empty()) wanted.push_back({});
  std::vector<MeasuredServer> servers;
  for (const FrameworkFlag& framework : wanted) {
    Result<MeasuredServer> server = MeasuredServer::connect(flags, framework.name, framework.url);
    if (!server) {
      Error error = server.error();
      if (!framework.name.empty()) error.message = framework.name + ": " + error.message;
      return error;
    }
    servers.push_back(*std::move(server));
  }
  return servers;
}

}  // namespace millrace::bench
