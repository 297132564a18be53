// A model on a CUDA device, as whoever starts an engine asks for it: what fits is decided here, by
// what memory the device has left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/weight_source.h"
#include "kernels/quantized/quantized_matrix.h"
#include "model/config.h"
#include "model/model_runner.h"
#include "model/runner_checks.h"
#include "model/weights.h"

namespace millrace::cuda {

struct CudaRunnerOptions {
  int32_t device = 0;
  // num_blocks and num_hidden_slots follow from the memory that is left.
  RunnerLimits limits;
  double gpu_memory_utilization = 0.9;         // of the device's memory, what this process may take
  std::optional<int64_t> kv_cache_bytes = {};  // none: all that is left
  bool use_graphs = true;                      // CudaModelOptions, as the next
  std::optional<QuantizedFormat> quantization = {};
};

struct CudaRunner {
  std::unique_ptr<ModelRunner> model;
  size_t num_step_weight_bytes = 0;      // of the matrices that each step reads whole
  std::vector<std::string> start_lines;  // what was decided, with its arithmetic
};

// kNotFound, "no CUDA device: ...": there is none, or this build has no backend. Else what
// CudaModel::load() refuses, and kResourceExhausted with what is missing where the model does not
// fit. `pool` converts weights and is not kept; `progress` is told of weights, then of graphs.
Result<CudaRunner> load_cuda_runner(
    const ModelConfig& config,
    const WeightSource& source,
    const CudaRunnerOptions& options,
    ThreadPool& pool,
    const LoadProgress& progress = {}
);

}  // namespace millrace::cuda
