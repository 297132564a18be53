#include "cuda/memory_budget.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace millrace::cuda {
namespace {

std::string gib(int64_t num_bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(num_bytes) / (1024.0 * 1024.0 * 1024.0));
}

Result<void> check_input(const MemoryBudgetInput& input) {
  // Written so that what is no number is refused too.
  if (!(input.gpu_memory_utilization > 0.0 && input.gpu_memory_utilization <= 1.0)) {
    return invalid_argument(
        fmt::format(
            "--gpu-memory-utilization is {}; it must be above 0 and at most 1",
            input.gpu_memory_utilization
        ),
        "--gpu-memory-utilization"
    );
  }
  if (input.num_kv_bytes && *input.num_kv_bytes < 0) {
    return invalid_argument(
        "--kv-cache-memory-bytes must not be negative", "--kv-cache-memory-bytes"
    );
  }
  return {};
}

Error exhausted(std::string message, std::string where) {
  return {ErrorCode::kResourceExhausted, std::move(message), std::move(where)};
}

std::string budget_text(const MemoryBudgetInput& input, int64_t num_usable, int64_t num_left) {
  return fmt::format(
      "GPU memory: {} of {} = {} - weights {} - workspace {} - graphs {} = {} left",
      input.gpu_memory_utilization,
      gib(input.device.num_bytes),
      gib(num_usable),
      gib(input.num_weight_bytes),
      gib(input.num_workspace_bytes),
      gib(input.num_graph_bytes),
      gib(num_left)
  );
}

// What is left for KV blocks, of the share of the memory.
Result<int64_t> bytes_left(const MemoryBudgetInput& input, int64_t num_usable_bytes) {
  if (num_usable_bytes > input.device.num_bytes_free) {
    return exhausted(
        fmt::format(
            "--gpu-memory-utilization {} of the device's {} is {}, and {} are free; lower it, or "
            "end what else uses the device",
            input.gpu_memory_utilization,
            gib(input.device.num_bytes),
            gib(num_usable_bytes),
            gib(input.device.num_bytes_free)
        ),
        "--gpu-memory-utilization"
    );
  }
  int64_t num_bytes_left = num_usable_bytes;
  for (const int64_t part :
       {input.num_weight_bytes, input.num_workspace_bytes, input.num_graph_bytes}) {
    CHECK(part >= 0 && part < int64_t{1} << 60, "a size that no model has");
    num_bytes_left -= part;
  }
  if (num_bytes_left >= 0) return num_bytes_left;
  return exhausted(
      fmt::format(
          "weights {}, workspace {} and graphs {} take {} more than the {} of GPU memory that may "
          "be used",
          gib(input.num_weight_bytes),
          gib(input.num_workspace_bytes),
          gib(input.num_graph_bytes),
          gib(-num_bytes_left),
          gib(num_usable_bytes)
      ),
      "--gpu-memory-utilization"
  );
}

}  // namespace

Result<MemoryBudget> plan_memory_budget(const MemoryBudgetInput& input) {
  if (const Result<void> checked = check_input(input); !checked) return checked.error();
  MemoryBudget budget;
  budget.num_usable_bytes = static_cast<int64_t>(
      input.gpu_memory_utilization * static_cast<double>(input.device.num_bytes)
  );
  const Result<int64_t> left = bytes_left(input, budget.num_usable_bytes);
  if (!left) return left.error();

  budget.num_kv_bytes = input.num_kv_bytes.value_or(*left);
  if (budget.num_kv_bytes > *left) {
    return exhausted(
        fmt::format(
            "--kv-cache-memory-bytes asks for {}, and {} are left",
            gib(budget.num_kv_bytes),
            gib(*left)
        ),
        "--kv-cache-memory-bytes"
    );
  }
  budget.text = budget_text(input, budget.num_usable_bytes, *left);
  return budget;
}

}  // namespace millrace::cuda
