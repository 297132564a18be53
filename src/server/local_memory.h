// What a model that runs on this machine's processors takes of its memory.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "model/coded_matrices.h"
#include "model/config.h"
#include "model/cpu_model.h"
#include "model/memory_plan.h"
#include "server/local_model.h"

namespace millrace {

// `config`: of what this process has of the model; `coded`: as MemoryPlanOptions.
// kResourceExhausted: its weights, or with those the KV cache that was asked for, do not fit into
// options.available_bytes.
Result<MemoryPlan> plan_local_memory(
    const ModelConfig& config,
    const LocalModelOptions& options,
    const CpuModelOptions& model,
    std::shared_ptr<const CodedMatrices> coded
);

// What the KV cache may take: as asked, else what all sequences at their longest could use, up to
// 4 GiB (or one whole sequence, if that is more) and to what is free, less 256 MiB for all else
// where a whole sequence leaves as much.
int64_t kv_cache_bytes(const MemoryPlan& plan, const LocalModelOptions& options);

}  // namespace millrace
