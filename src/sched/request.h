// One API call as the control plane sees it: token ids and numbers, no text. A value; immutable
// once the scheduler has it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/id.h"
#include "base/siphash.h"
#include "sampling/sampling_params.h"

namespace millrace {

struct Request {
  RequestId id;
  std::vector<TokenId> prompt;  // not empty
  SamplingParams sampling;      // valid by validate(SamplingParams)
  uint64_t seed = 0;            // sampling.seed, or the one that was drawn for this request
  int32_t priority = 0;         // lower runs first, under the priority policy
  TimePoint arrival;
  std::optional<TimePoint> deadline;

  // Where the hashes of its prefixes begin: requests share what they computed if this is equal.
  Hash128 prefix_root;
  TenantId tenant;  // whose turn it counts for, under the fair policy
};

}  // namespace millrace
