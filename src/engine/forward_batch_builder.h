// From a plan to what a model sees of it.
#pragma once

#include "model/forward_batch.h"
#include "sched/step_plan.h"

namespace millrace {

// Flattens the scheduled sequences, in the plan's order. The logit rows of a sequence lie together,
// by position; so row r of the logits belongs to the first sequence with r below the running sum of
// num_logit_rows. A sequence that resumes has no tokens and is none of the batch's sequences: all
// there is of it is the row of its hidden slot. Block tables are as wide as the longest; the rest
// of a shorter one is 0 and never read. A token that the step before chooses is pending, with the
// row of that step. There are no draws. REQUIRES: the plan is not empty and was not committed yet.
ForwardBatch build_forward_batch(const StepPlan& plan);

}  // namespace millrace
