// When requests of an open loop are due, on one absolute schedule.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/result.h"

namespace millrace::bench {

enum class ArrivalKind { kConstant, kGamma };
enum class RampKind { kNone, kLinear, kExponential };

struct ArrivalOptions {
  ArrivalKind kind = ArrivalKind::kGamma;
  double request_rate = 1.0;  // per second, finite, above 0
  double burstiness = 1.0;    // gamma's shape: 1 is Poisson, larger is steadier
  // With a number: gamma's gaps are stretched so that the last is due at num / rate, as vLLM does.
  std::optional<int64_t> num_requests;
  bool is_rescaled = true;
  // vLLM's --ramp-up-strategy: the rate over the requests, from start to end. Needs num_requests.
  RampKind ramp = RampKind::kNone;
  double ramp_start_rps = 0.0, ramp_end_rps = 0.0;
  // guidellm's: the first so many seconds rise from nothing to the rate; constant only.
  double rampup_seconds = 0.0;
  uint64_t seed = 0;
};

// Ascending offsets from the start, one for each request. Not thread-safe.
class Arrivals {
 public:
  virtual ~Arrivals() = default;
  // none: num_requests were given.
  virtual std::optional<std::chrono::nanoseconds> next() = 0;
};

// The error names the option.
Result<std::unique_ptr<Arrivals>> make_arrivals(const ArrivalOptions& options);

}  // namespace millrace::bench
