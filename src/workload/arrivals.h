// When requests of an open loop are due, on one absolute schedule.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/result.h"

namespace millrace::bench {

enum class ArrivalKind {
  kConstant,  // equal gaps; the first is due at once (guidellm: start + i / rate)
  kGamma,     // gamma gaps; the first is due after the first gap (vLLM)
};
enum class RampKind { kNone, kLinear, kExponential };

struct ArrivalOptions {
  ArrivalKind kind = ArrivalKind::kGamma;
  double request_rate = 1.0;  // per second, finite, above 0; of no use with a ramp
  // Gamma's shape: 1 is Poisson, larger is steadier. Infinite: gaps of 1 / rate as kConstant, but
  // the first is due after one gap, as in vLLM.
  double burstiness = 1.0;
  // With a number: gamma's gaps are stretched so that the last is due at num / rate, as vLLM does
  // (not where the rate ramps).
  std::optional<int64_t> num_requests;
  bool is_rescaled = true;
  // vLLM's --ramp-up-strategy: request i of n has the rate at p = i / (n - 1) between start and
  // end: start + (end - start) p, or start (end / start)^p. Needs num_requests.
  RampKind ramp = RampKind::kNone;
  double ramp_start_rps = 0.0, ramp_end_rps = 0.0;
  // guidellm's: the first so many seconds rise from nothing to the rate, so that request i is due
  // at sqrt(2 i seconds / rate); constant only.
  double rampup_seconds = 0.0;
  uint64_t seed = 0;
};

// Ascending offsets from the start, one for each request. Not thread-safe.
class Arrivals {
 public:
  virtual ~Arrivals() = default;
  // none: num_requests were given. Offsets stop growing at kArrivalMax.
  virtual std::optional<std::chrono::nanoseconds> next() = 0;
};

// 73 years: what a mistaken rate asks for stays a time that can be computed with.
inline constexpr std::chrono::nanoseconds kArrivalMax{int64_t{1} << 61};

// The same options give the same offsets. The error names the option. Costs one pass over the gaps
// where they are rescaled, and no memory.
Result<std::unique_ptr<Arrivals>> make_arrivals(const ArrivalOptions& options);

}  // namespace millrace::bench
