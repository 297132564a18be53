// The reasons not to trust a point, found in its record. Pure.
#pragma once

#include "results/point_record.h"
#include "results/point_summary.h"
#include "results/verdict.h"

namespace millrace::bench {

// `ours`: the record's figures by our own formulas, over the whole point. The codes are listed in
// results/judge_rules.h; docs/guides/benchmarks.md says what to do about each.
Verdict judge(const PointRecord& record, const PointSummary& ours);

}  // namespace millrace::bench
