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
#include "cuda/communicator.h"
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
  // Steps in which each sequence has one token, and its logits are wanted, are one launch, and so
  // are the layers of others; else every kernel is launched by itself. The results are the same.
  bool use_graphs = true;
  // Of the device's memory, what may be gone when another graph of layers is made: they come in
  // ascending order, as small steps gain the most. Not measured.
  int64_t num_graph_bytes = int64_t{512} << 20;
  // How matrices are kept; the output head has 8 bits with either. None: as they are stored, and
  // bfloat16 where that is not quantized. What they multiply is bfloat16 with all of them.
  std::optional<QuantizedFormat> quantization = {};
  // Borrowed for the model's life; null: this process has the whole model. Otherwise `config` and
  // `source` are its rank's part (model/shard.h), and all ranks run the same batches.
  Communicator* communicator = nullptr;
};

class CudaModel : public ModelRunner {
 public:
  // Copies all weights of `source` to the device and captures the graphs; `progress` is told of the
  // weights, then of the graphs. `pool` converts and is not kept. kNotFound: no such device.
  // kUnsupported for a family that cannot be run; kInvalidArgument for an option or a tensor that
  // does not fit, kResourceExhausted for memory.
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
  size_t num_graphs() const { return decodes_.graphs.size() + layers_.graphs.size(); }
  size_t num_graph_launches() const { return num_graph_launches_; }  // since it was loaded

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
  Result<void> capture_graphs(const LoadProgress& progress);

  // Graphs of some sizes, ascending.
  struct Graphs {
    GraphBuckets buckets;
    std::vector<Graph> graphs = {};  // of the first buckets

    // The smallest size that holds so many rows; nullopt: no graph does.
    std::optional<int32_t> size_for(size_t num_rows) const;
    const Graph& of_size(int32_t size) const;
  };

  // How a step is done: by a graph of all of it, of its layers, or by none; and its shape.
  struct StepPlan {
    const Graph* graph = nullptr;
    bool has_logits = false;  // the graph computes them
    StepShape shape;
  };
  StepPlan plan_step(const ForwardBatch& batch) const;
  StepShape decode_shape(StepShape own, int32_t num_sequences) const;
  StepShape layers_shape(StepShape own, int32_t num_tokens) const;
  void compute(const ForwardBatch& batch, const StepPlan& plan, const StepView& step);

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
  Graphs decodes_;         // by sequences: steps of one token each, with the logits of all
  Graphs layers_;          // by tokens: any step, without its logits
  size_t num_graph_launches_ = 0;
};

}  // namespace millrace::cuda
