#include "engine/refusal.h"

#include <utility>

#include "base/check.h"

namespace millrace {

Error deadline_passed(std::string where) {
  return {ErrorCode::kDeadlineExceeded, "the request's time limit has passed", std::move(where)};
}

std::string_view name_of(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kLiveSeqs:
      return "live_seqs";
    case RefusalReason::kQueuedReqs:
      return "queued_reqs";
    case RefusalReason::kQueuedTokens:
      return "queued_tokens";
    case RefusalReason::kResultBytes:
      return "result_bytes";
    case RefusalReason::kDeadline:
      return "deadline";
    case RefusalReason::kMemory:
      return "memory";
  }
  CHECK(false, "a reason without a name");
}

}  // namespace millrace
