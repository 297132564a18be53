#include "model/cpu_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "model/rope_options.h"
#include "model/runner_checks.h"
#include "model/stored_weights.h"

namespace millrace {
namespace {

RunnerLimits limits_of(const CpuModelOptions& options) {
  return {
      .block_size = options.block_size,
      .num_blocks = options.num_blocks,
      .max_model_len = options.max_model_len,
      .max_num_batched_tokens = options.max_num_batched_tokens,
      .max_num_logits = options.max_num_logits,
      .num_hidden_slots = options.num_hidden_slots,
  };
}

Result<void> check_isa(Isa isa) {
  const std::span<const Isa> isas = supported_isas();
  if (std::find(isas.begin(), isas.end(), isa) != isas.end()) return {};
  return unsupported(fmt::format("this processor cannot run {}", name_of(isa)));
}

WorkspaceLimits workspace_limits(const CpuModelOptions& options, size_t num_threads) {
  return {
      .weights = {options.dtype, options.quantization},
      .num_tokens_max = static_cast<size_t>(options.max_num_batched_tokens),
      .num_logits_max = static_cast<size_t>(options.max_num_logits),
      .context_max = static_cast<size_t>(options.max_model_len),
      .num_threads = num_threads,
  };
}

// nullopt: this process has the whole model.
std::optional<int64_t> num_ranks(const CpuModelOptions& options) {
  if (options.group == nullptr) return std::nullopt;
  return options.group->world_size();
}

Result<ActivationBuffer> allocate_saved_hidden(
    const ModelConfig& config, const CpuModelOptions& options
) {
  const std::optional<size_t> num_bytes =
      checked_mul(static_cast<size_t>(options.num_hidden_slots), hidden_state_bytes(config));
  if (!num_bytes) return invalid_argument("the hidden states' size does not fit in 64 bits");
  return ActivationBuffer::allocate(*num_bytes, static_cast<size_t>(config.hidden_size));
}

// Takes the value, or reports the error that stands in its place.
template <class T>
Result<void> take(Result<T> result, T& target) {
  if (!result) return result.error();
  target = *std::move(result);
  return {};
}

}  // namespace

CpuModel::CpuModel(const ModelConfig& config, const CpuModelOptions& options, ThreadPool& pool)
    : config_(config),
      options_(options),
      pool_(pool),
      decoder_(
          {.isa = options.isa, .pool = pool},
          {.config = config_,
           .weights = weights_,
           .rope = rope_,
           .kv_cache = kv_cache_,
           .workspace = workspace_,
           .saved_hidden = saved_hidden_,
           .quantization = options.quantization,
           .group = options.group}
      ) {}

Result<std::unique_ptr<CpuModel>> CpuModel::load(
    const ModelConfig& config,
    const WeightSource& source,
    const CpuModelOptions& options,
    ThreadPool& pool,
    const LoadProgress& progress
) {
  const std::optional<QuantizedFormat> stored = config.stored_quantization;
  if (stored && (!options.quantization || options.quantization->format != *stored)) {
    return invalid_argument(
        fmt::format("the weights are stored as {}", name_of(*stored)), "quantization_config"
    );
  }
  // What may not fit comes first: the weights take the longest to read.
  Result<std::unique_ptr<CpuModel>> model = allocate(config, options, pool);
  if (!model) return model;
  const WeightFormat format = {options.dtype, options.quantization};
  Result<ModelWeights> weights = stored
                                     ? load_stored_weights(config, source, format, pool, progress)
                                     : load_weights(config, source, format, pool, progress);
  const Result<void> done = take(std::move(weights), (*model)->weights_);
  if (!done) return done.error();
  return model;
}

Result<std::unique_ptr<CpuModel>> CpuModel::from_weights(
    const ModelConfig& config,
    ModelWeights weights,
    const CpuModelOptions& options,
    ThreadPool& pool
) {
  Result<std::unique_ptr<CpuModel>> model = allocate(config, options, pool);
  if (model) (*model)->weights_ = std::move(weights);
  return model;
}

Result<std::unique_ptr<CpuModel>> CpuModel::allocate(
    const ModelConfig& config, const CpuModelOptions& options, ThreadPool& pool
) {
  CHECK(num_ranks(options) == config.num_head_parts, "a part of the model for each rank");
  Result<void> done = check_runnable_model(config);
  if (!done) return done.error();
  if (done = check_limits(limits_of(options)); !done) return done.error();
  if (done = check_isa(options.isa); !done) return done.error();

  std::unique_ptr<CpuModel> model(new CpuModel(config, options, pool));
  const KvCacheOptions kv_options = {
      .dtype = options.kv_dtype,
      .block_size = options.block_size,
      .num_blocks = options.num_blocks};
  done = take(KvCache::allocate(config, kv_options), model->kv_cache_);
  if (!done) return done.error();
  done = take(allocate_saved_hidden(config, options), model->saved_hidden_);
  if (!done) return done.error();
  const WorkspaceLimits limits = workspace_limits(options, pool.num_threads());
  done = take(Workspace::allocate(config, limits), model->workspace_);
  if (!done) return done.error();
  done = take(RopeTable::make(rope_options(config, options.max_model_len), pool), model->rope_);
  if (!done) return done.error();
  return model;
}

WorkspaceBytes CpuModel::workspace_bytes(
    const ModelConfig& config, const CpuModelOptions& options, size_t num_threads
) {
  return millrace::workspace_bytes(config, workspace_limits(options, num_threads));
}

std::span<const float> CpuModel::forward(const ForwardBatch& batch) {
  check_batch(batch, config_.vocab_size, limits_of(options_));
  CHECK(batch.draws.empty() && batch.pending.empty(), "this model gives logits, and draws nothing");
  const ConstRows logits = decoder_.forward(batch);
  return {logits.data, logits.num_rows * logits.num_columns};
}

}  // namespace millrace
