// What a request says when a model runs it alone: no engine, no scheduler, no shared block, no
// saved state; its prompt in one pass and then token by token. The oracle of the mixes.
#pragma once

#include <span>
#include <vector>

#include "engine/reference_run.h"
#include "model/cpu_model.h"
#include "sched/request.h"

namespace millrace {

struct LoneRun {
  SequenceRecord record;  // without FinishedEvents: there is no engine to say them
  FinishReason reason = FinishReason::kLength;
};

// The n choices of the request, in order. REQUIRES: a model with room for the longest of them, and
// for the logits of the whole prompt where prompt logprobs are asked for.
std::vector<LoneRun> run_alone(
    CpuModel& model, const Request& request, std::span<const TokenId> eos_token_ids
);

}  // namespace millrace
