// Why an engine refuses a request that is right in itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace {

enum class RefusalReason {
  kLiveSeqs,      // as many sequences run or wait as may
  kQueuedReqs,    // as many sequences wait as may
  kQueuedTokens,  // as many prompt tokens wait as may
  kResultBytes,   // the results of what is live could take as much memory as they may
  kDeadline,      // its time had passed when it came
  kMemory,        // there was no memory to queue it
};

inline constexpr std::array<RefusalReason, 6> kRefusalReasons = {
    RefusalReason::kLiveSeqs,
    RefusalReason::kQueuedReqs,
    RefusalReason::kQueuedTokens,
    RefusalReason::kResultBytes,
    RefusalReason::kDeadline,
    RefusalReason::kMemory,
};

// [reason]: how many requests were refused for it.
using RefusalCounts = std::array<int64_t, kRefusalReasons.size()>;

constexpr size_t index_of(RefusalReason reason) {
  return static_cast<size_t>(reason);
}

// What is said of a request whose time had passed. `where`: the field that says how much it has.
Error deadline_passed(std::string where = {});

// "live_seqs", "queued_reqs", "queued_tokens", "result_bytes", "deadline" or "memory".
std::string_view name_of(RefusalReason reason);

}  // namespace millrace
