#include "cuda/cuda_runner.h"

#include <fmt/format.h>

#include <utility>

#include "cuda/memory_budget.h"
#include "cuda/model/cuda_model.h"
#include "cuda/runtime.h"
#include "model/kv_budget.h"
#include "model/weight_names.h"
#include "model/workspace.h"

namespace millrace::cuda {
namespace {

struct FittedLimits {
  RunnerLimits limits;
  std::vector<std::string> lines;
};

// What matrices are kept as, and what they multiply.
std::string weights_text(std::optional<QuantizedFormat> quantization) {
  if (!quantization) return "bfloat16";
  return fmt::format("{} weights and bfloat16 inputs", name_of(*quantization));
}

// `options.quantization`: of device_quantization(). Each KV block comes with a slot for a hidden
// state.
Result<FittedLimits> fit(const ModelConfig& config, const CudaRunnerOptions& options) {
  FittedLimits fitted = {.limits = options.limits, .lines = {}};
  const Result<MemoryBudget> memory = plan_memory_budget(
      {.device = memory_info(),
       .gpu_memory_utilization = options.gpu_memory_utilization,
       .num_weight_bytes = static_cast<int64_t>(device_weight_bytes(config, options.quantization)),
       .num_workspace_bytes = static_cast<int64_t>(
           CudaModel::workspace_bytes(config, options.limits, options.quantization)
       ),
       // Kept free for what the driver takes of graphs and of kernels' code.
       .num_graph_bytes = options.use_graphs ? CudaModelOptions{}.num_graph_bytes : 0,
       .num_kv_bytes = options.kv_cache_bytes}
  );
  if (!memory) return memory.error();
  const auto block_bytes =
      static_cast<int64_t>(DeviceKvCache::block_bytes(config, options.limits.block_size));
  const Result<KvBudget> blocks = plan_kv_budget(
      {.num_bytes = memory->num_kv_bytes - block_bytes,  // the one for padding
       .bytes_per_block = block_bytes + static_cast<int64_t>(hidden_state_bytes(config)),
       .block_size = options.limits.block_size,
       .max_model_len = options.limits.max_model_len}
  );
  if (!blocks) return blocks.error();
  fitted.limits.num_blocks = blocks->num_blocks;
  fitted.limits.num_hidden_slots = blocks->num_blocks;
  fitted.lines = {memory->text, blocks->text};
  return fitted;
}

}  // namespace

Result<CudaRunner> load_cuda_runner(
    const ModelConfig& config,
    const WeightSource& source,
    const CudaRunnerOptions& options,
    ThreadPool& pool,
    const LoadProgress& progress
) {
  const Result<DeviceInfo> device = find_device(options.device);
  if (!device) return device.error();
  use_device(options.device);
  if (Result<void> done = check_runnable_model(config); !done) return done.error();
  if (Result<void> done = check_dense_model(config, "run on a device"); !done) return done.error();
  if (Result<void> done = check_limits(options.limits); !done) return done.error();
  if (options.limits.block_size <= 0 || options.limits.block_size % 16 != 0) {
    return invalid_argument("a KV block has a multiple of 16 token slots", "--block-size");
  }
  const Result<std::optional<QuantizedFormat>> quantization =
      device_quantization(config, options.quantization);
  if (!quantization) return quantization.error();
  CudaRunnerOptions found = options;
  found.quantization = *quantization;
  Result<FittedLimits> fitted = fit(config, found);
  if (!fitted) return fitted.error();
  Result<std::unique_ptr<CudaModel>> model = CudaModel::load(
      config,
      source,
      {.limits = fitted->limits,
       .device = options.device,
       .use_graphs = options.use_graphs,
       .quantization = *quantization},
      pool,
      progress
  );
  if (!model) return model.error();
  CudaRunner runner;
  runner.num_step_weight_bytes = (*model)->num_step_weight_bytes();
  runner.start_lines.push_back(fmt::format(
      "{:.1f} M parameters, {} on {}, {} graphs",
      static_cast<double>(num_parameters(config)) / 1e6,
      weights_text(*quantization),
      device->name,
      (*model)->num_graphs()
  ));
  for (std::string& line : fitted->lines) runner.start_lines.push_back(std::move(line));
  runner.model = *std::move(model);
  return runner;
}

}  // namespace millrace::cuda
