// Thousands of streams at the pace of people who read along.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "base/result.h"
#include "bench/scenario.h"

namespace millrace::bench {

struct OpenStreamsOptions {
  size_t num_streams = 10'000;
  double tokens_per_second = 20;     // of each stream: what the server was started with
  double starts_per_second = 2'000;  // so that the streams do not beat together
  double seconds = 10;
  // Between the client's looks at what came; 0: it spins, as a client with a core of its own may.
  std::chrono::microseconds rest_time{0};
  bool is_chat = false;
};

// What each stream asks for: more tokens than it lives to see.
std::string open_streams_request(const std::string& model, const OpenStreamsOptions& options);

// By how much the gaps between a stream's events miss the pace, and what a stream costs the server
// in memory. The error: a stream that ended, or whose events are wrong.
Result<Report> measure_open_streams(
    const ServerUnderLoad& target, const OpenStreamsOptions& options
);

}  // namespace millrace::bench
