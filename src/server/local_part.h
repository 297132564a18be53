// A model that processes share on processors (docs/decisions/0017), as each of them loads its part:
// rank 0 decides how, tells the others, and all begin together or not at all.
#pragma once

#include <memory>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/weight_source.h"
#include "model/config.h"
#include "model/cpu_model.h"
#include "model/shard.h"
#include "model/weights.h"
#include "parallel/process_group.h"

namespace millrace {

ModelShard shard_of(const ProcessGroup& group);

// Rank 0's part, for a TensorParallelRunner. `config` and `source`: of the whole model. REQUIRES:
// options.group. Returns when all ranks have loaded theirs. kInternal: another could not; it says
// why itself.
Result<std::unique_ptr<CpuModel>> load_leading_part(
    const ModelConfig& config,
    const WeightSource& source,
    const CpuModelOptions& options,
    ThreadPool& pool,
    const LoadProgress& progress
);

// What the other ranks do: load as rank 0 says, then follow its batches until it ends. kCancelled:
// a lower rank could not load its part, and says why.
Result<void> follow_shared_model(
    const ModelConfig& config, const WeightSource& source, ProcessGroup& group, ThreadPool& pool
);

}  // namespace millrace
