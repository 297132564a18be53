// What a server tells Prometheus about itself: its process, under the names that Prometheus's own
// client libraries use, its HTTP side, and which build it is.
#pragma once

#include <optional>
#include <string>

#include "http/counters.h"

namespace millrace {

// Immutable; any thread.
class ProcessMetrics {
 public:
  // `version`: of the program.
  explicit ProcessMetrics(std::string version);

  // All families, in Prometheus's text format. What the system does not tell is left out.
  std::string render(const http::CountersSnapshot& http) const;

 private:
  const std::string version_;
  const std::optional<double> start_time_s_;  // Unix time
};

}  // namespace millrace
