// A model that runs on a CUDA device: it owns weights, KV cache, workspace, stream and graphs
// there, all taken by load(); a step takes none of a device's. Called by the engine thread only;
// load() by another, before.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/weight_source.h"
#include "cuda/device_buffer.h"
#include "cuda/graph.h"
#include "cuda/graph_buckets.h"
#include "cuda/model/device_decoder.h"
#include "cuda/model/device_kv_cache.h"
#include "cuda/model/device_weights.h"
#include "cuda/model/device_workspace.h"
#include "cuda/model/step_inputs.h"
#include "cuda/model/step_outputs.h"
#include "cuda/stream.h"
#include "kernels/quantized/quantized_matrix.h"
#include "model/config.h"
#include "model/model_runner.h"
#include "model/runner_checks.h"

namespace millrace::cuda {

struct CudaModelOptions {
  RunnerLimits limits;
  int32_t device = 0;
  // Steps in which each sequence has one token, and its logits are wanted, are one launch; else
  // every kernel is launched by itself. The results are the same.
  bool use_graphs = true;
  // How matrices are kept; the output head is int8 with either. None: as they are stored, and
  // bfloat16 where that is not quantized. What they multiply is bfloat16 with all of them.
  std::optional<QuantizedFormat> quantization = {};
};

class CudaModel : public ModelRunner {
 public:
  // Copies all weights of `source` to the device and captures the graphs. `pool` converts and is
  // not kept. kNotFound: no such device. kUnsupported for a family that cannot be run;
  // kInvalidArgument for an option or a tensor that does not fit, kResourceExhausted for memory.
  static Result<std::unique_ptr<CudaModel>> load(
      const ModelConfig& config,
      const WeightSource& source,
      const CudaModelOptions& options,
      ThreadPool& pool,
      const LoadProgress& progress = {}
  );

  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t max_model_len() const override { return options_.limits.max_model_len; }
  int32_t block_size() const override { return options_.limits.block_size; }
  int32_t num_blocks() const override { return options_.limits.num_blocks; }
  int32_t num_hidden_slots() const override { return options_.limits.num_hidden_slots; }
  std::span<const float> forward(const ForwardBatch& batch) override;
  bool draws_tokens() const override { return true; }
  void launch(const ForwardBatch& batch) override;
  StepResult wait() override;

  // With the quantization that was found.
  const CudaModelOptions& options() const { return options_; }
  size_t num_weight_bytes() const { return weights_.memory.num_bytes(); }
  // Of the matrices that each step reads whole.
  size_t num_step_weight_bytes() const;
  size_t num_graphs() const { return graphs_.size(); }

  // What load() takes of the device besides weights, KV blocks, hidden slots and graphs.
  static size_t workspace_bytes(
      const ModelConfig& config,
      const RunnerLimits& limits,
      std::optional<QuantizedFormat> quantization
  );

 private:
  CudaModel(const ModelConfig& config, const CudaModelOptions& options, Stream stream);
  Result<void> allocate(ThreadPool& pool);
  Result<void> copy_rope_table(ThreadPool& pool);
  Result<void> capture_graphs();

  // The graph that does `batch`, and its shape; null: none.
  const Graph* graph_of(const ForwardBatch& batch, StepShape& shape) const;
  StepShape graph_shape(const StepShape& own, int32_t num_sequences) const;

  ModelConfig config_;
  CudaModelOptions options_;
  Stream stream_;
  DeviceWeights weights_;
  DeviceKvCache kv_cache_;
  DeviceBuffer saved_hidden_;  // [num_hidden_slots, hidden]
  DeviceBuffer rope_;          // [max_model_len][2][head_dim / 2]
  DeviceWorkspace workspace_;
  StepInputs inputs_;
  StepOutputs outputs_;
  DeviceDecoder decoder_;  // it refers to those above
  GraphBuckets buckets_;
  std::vector<Graph> graphs_;  // of each bucket; none where graphs are not used
};

}  // namespace millrace::cuda
