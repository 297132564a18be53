#include "results/judge.h"

#include <fmt/format.h>

namespace millrace::bench {

Verdict judge(const PointRecord& record, const PointSummary& ours) {
  Verdict verdict;
  if (ours.num_completed.value_or(0) == 0) {
    verdict.findings.push_back(
        {Trust::kInvalid,
         "nothing_completed",
         fmt::format("none of {} requests completed", record.requests.size())}
    );
  }
  return verdict;
}

}  // namespace millrace::bench
