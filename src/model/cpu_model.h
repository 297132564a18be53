// A model that runs on the processor: it owns weights, KV cache and workspace, and borrows the
// threads. Everything is allocated by load(); forward() allocates nothing. Called by the engine
// thread only.
#pragma once

#include <memory>
#include <optional>

#include "base/thread_pool.h"
#include "checkpoint/weight_source.h"
#include "kernels/isa.h"
#include "kernels/rope.h"
#include "model/config.h"
#include "model/decoder.h"
#include "model/kv_cache.h"
#include "model/model_runner.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace millrace {

struct CpuModelOptions {
  DType dtype = DType::kBFloat16;  // of the matrices in memory; sums are always float32
  // Of the layers' matrices; the output head is int8, with int4 int6, and the embedding stays in
  // `dtype` with any.
  std::optional<Quantization> quantization = {};
  DType kv_dtype = DType::kBFloat16;  // of the KV cache
  int32_t block_size = 16;            // token slots of a KV block, a multiple of 16
  int32_t num_blocks = 0;
  int32_t max_model_len = 0;  // tokens of a sequence, prompt and output
  int32_t max_num_batched_tokens = 0;
  int32_t max_num_logits = 0;    // rows of one batch whose logits are wanted
  int32_t num_hidden_slots = 0;  // hidden states that can be kept, hidden_size floats each
  Isa isa = best_isa();
  // Borrowed for the model's life; nullptr: this process has the whole model. Otherwise `config`
  // and `source` are its rank's part (shard.h), and all ranks run the same batches.
  ProcessGroup* group = nullptr;
};

class CpuModel : public ModelRunner {
 public:
  // Reads and packs all weights of `source`. `pool` is borrowed for the model's life.
  // kUnsupported for a family that cannot be run, kInvalidArgument for an option or a tensor that
  // does not fit, kNotFound for a missing tensor, kResourceExhausted for memory.
  static Result<std::unique_ptr<CpuModel>> load(
      const ModelConfig& config,
      const WeightSource& source,
      const CpuModelOptions& options,
      ThreadPool& pool,
      const LoadProgress& progress = {}
  );

  // The same with weights that are in memory already; `options.dtype` and `quantization` say how.
  static Result<std::unique_ptr<CpuModel>> from_weights(
      const ModelConfig& config,
      ModelWeights weights,
      const CpuModelOptions& options,
      ThreadPool& pool
  );

  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t max_model_len() const override { return options_.max_model_len; }
  int32_t block_size() const override { return options_.block_size; }
  int32_t num_blocks() const override { return options_.num_blocks; }
  int32_t num_hidden_slots() const override { return options_.num_hidden_slots; }
  std::span<const float> forward(const ForwardBatch& batch) override;
  ThreadPool* idle_threads() override { return &pool_; }

  // Borrowed from now on; nullptr: none. For calibration.
  void set_observer(InputObserver* observer) { decoder_.set_observer(observer); }

  const ModelConfig& config() const { return config_; }
  const CpuModelOptions& options() const { return options_; }
  size_t num_weight_bytes() const { return weights_.num_bytes(); }
  size_t num_step_weight_bytes() const { return weights_.num_step_bytes(); }
  size_t num_expert_weight_bytes() const { return weights_.num_expert_bytes(); }
  size_t num_kv_bytes() const { return kv_cache_.num_bytes(); }
  size_t num_saved_hidden_bytes() const { return saved_hidden_.num_bytes(); }

  // What load() allocates besides weights, KV cache, hidden slots and rope table.
  static WorkspaceBytes workspace_bytes(
      const ModelConfig& config, const CpuModelOptions& options, size_t num_threads
  );

 private:
  CpuModel(const ModelConfig& config, const CpuModelOptions& options, ThreadPool& pool);
  // Everything but the weights.
  static Result<std::unique_ptr<CpuModel>> allocate(
      const ModelConfig& config, const CpuModelOptions& options, ThreadPool& pool
  );

  ModelConfig config_;
  CpuModelOptions options_;
  ThreadPool& pool_;
  ModelWeights weights_;
  RopeTable rope_;
  KvCache kv_cache_;
  ActivationBuffer saved_hidden_;  // [num_hidden_slots, hidden]
  Workspace workspace_;
  Decoder decoder_;  // last: it refers to those above
};

}  // namespace millrace
