#include "server/local_memory.h"

#include <algorithm>
#include <utility>

#include "base/math.h"

namespace millrace {
namespace {

constexpr int64_t kKvCacheBytesDefaultMax = int64_t{4} << 30;  // as vLLM's on CPUs
// What a server takes besides weights, scratch and KV cache: tokenizer, requests, answers,
// connections. SmolLM2's takes 0.1 GB at first; in a container of 700 MB whose rest the cache had,
// it was killed.
constexpr int64_t kOtherBytes = int64_t{256} << 20;

}  // namespace

Result<MemoryPlan> plan_local_memory(
    const ModelConfig& config,
    const LocalModelOptions& options,
    const CpuModelOptions& model,
    std::shared_ptr<const CodedMatrices> coded
) {
  Result<MemoryPlan> plan = plan_memory(
      config,
      {.weight_dtype = model.dtype,
       .quantization = model.quantization,
       .coded = std::move(coded),
       .kv_dtype = model.kv_dtype,
       .block_size = model.block_size,
       .max_num_batched_tokens = model.max_num_batched_tokens,
       .max_num_seqs = model.max_num_logits,
       .max_model_len = model.max_model_len,
       .num_threads = static_cast<int64_t>(options.num_threads),
       .available_bytes = options.available_bytes}
  );
  if (!plan) return plan.error();
  if (const Result<void> fit = check_weights_fit(config, *plan); !fit) {
    return Error{fit.error().code, fit.error().message, options.text.model};
  }
  if (options.kv_cache_bytes) {
    const Result<void> fits = check_kv_cache_fits(*plan, *options.kv_cache_bytes);
    if (!fits) return fits.error();
  }
  return plan;
}

int64_t kv_cache_bytes(const MemoryPlan& plan, const LocalModelOptions& options) {
  if (options.kv_cache_bytes) return *options.kv_cache_bytes;
  const int64_t blocks_each = div_ceil(plan.max_model_len, plan.options.block_size);
  const int64_t one_sequence = blocks_each * plan.bytes_per_block();
  const double usable = static_cast<double>(one_sequence + plan.bytes_per_block()) *
                        static_cast<double>(options.engine.max_num_seqs);
  // One sequence goes before what is only likely.
  const int64_t free_bytes = plan.num_blocks * plan.bytes_per_block();
  const int64_t bound = std::min(
      {std::max(kKvCacheBytesDefaultMax, one_sequence),
       std::max(free_bytes - kOtherBytes, one_sequence),
       free_bytes}
  );
  return usable < static_cast<double>(bound) ? static_cast<int64_t>(usable) : bound;
}

}  // namespace millrace
