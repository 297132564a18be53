// Open loop: requests come when they come (Poisson), whatever the server is doing.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "bench/scenario.h"

namespace millrace::bench {

struct FirstTokenOptions {
  double requests_per_second = 0;
  int64_t num_output_tokens = 16;
  double seconds = 5;
  bool is_chat = false;
};

// The time from a streamed request's arrival, as it was scheduled, to its first event with text.
// With an engine that takes no time this is the front end's share of TTFT, with its queueing and
// the client's own time to send and to receive. The client spins, for a core of its own.
Result<Report> measure_first_token(const ServerUnderLoad& target, const FirstTokenOptions& options);

}  // namespace millrace::bench
