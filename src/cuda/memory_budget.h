// What of a device's memory goes where, decided once at start, before any of it is taken: weights,
// scratch, graphs, and KV blocks from what is left (model/kv_budget.h counts those, for any
// device). Pure arithmetic, printed, so that each figure can be followed back to its flags.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "cuda/runtime.h"

namespace millrace::cuda {

struct MemoryBudgetInput {
  MemoryInfo device;  // before anything is taken
  // The share of the device's whole memory that this process may take, above 0 and up to 1.
  double gpu_memory_utilization = 0.9;
  int64_t num_weight_bytes = 0;
  int64_t num_workspace_bytes = 0;  // scratch of one step, and of matrix products
  int64_t num_graph_bytes = 0;      // kept free for graphs, which are captured when all is taken
  std::optional<int64_t> num_kv_bytes = {};  // asked for; none: all that is left
};

struct MemoryBudget {
  int64_t num_usable_bytes = 0;  // utilization * the device's whole memory
  int64_t num_kv_bytes = 0;      // for KV blocks: plan_kv_budget() says how many those are
  // "GPU memory: 0.9 of 139.80 GiB = 125.82 GiB - weights 14.19 GiB - workspace 0.52 GiB - graphs
  // 1.00 GiB = 110.11 GiB left"
  std::string text;
};

// kInvalidArgument, `where` naming the flag: a utilization out of its range. kResourceExhausted:
// others hold what it asks for, or the parts do not fit; the message says how much is missing.
// REQUIRES: the parts are sizes of a model that was read: not negative, below 2^60.
Result<MemoryBudget> plan_memory_budget(const MemoryBudgetInput& input);

}  // namespace millrace::cuda
