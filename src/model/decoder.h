// A dense decoder-only transformer as the operators compute it: Llama, Qwen2 and Qwen3, which
// differ in biases and in the norm of q and k alone. No state of its own; views of what CpuModel
// owns. Of a model that several processes share (shard.h), each computes its part, and they add up
// the residual stream after each half of a layer.
#pragma once

#include <optional>

#include "kernels/executor.h"
#include "kernels/quantized/quantization.h"
#include "kernels/quantized/weight_matrix.h"
#include "kernels/rope.h"
#include "model/config.h"
#include "model/forward_batch.h"
#include "model/kv_cache.h"
#include "model/matrix_place.h"
#include "model/weights.h"
#include "model/workspace.h"
#include "parallel/process_group.h"

namespace millrace {

// Sees what the matrices are given, before it is rounded as their formats want it.
class InputObserver {
 public:
  virtual ~InputObserver() = default;
  // `x`: [num_tokens, num_inputs], valid during the call, which is made by the engine thread.
  virtual void observe(const MatrixPlace& place, ConstRows x) = 0;
};

class Decoder {
 public:
  struct Parts {
    const ModelConfig& config;
    const ModelWeights& weights;
    const RopeTable& rope;
    KvCache& kv_cache;
    Workspace& workspace;
    ActivationBuffer& saved_hidden;  // [num_hidden_slots, hidden], kept from batch to batch
    std::optional<Quantization> quantization;  // of the matrices
    ProcessGroup* group;                       // nullptr: this process has the whole model
  };

  Decoder(const Executor& executor, const Parts& parts) : executor_(executor), parts_(parts) {}

  // Does what ForwardBatch says. The logits of batch.logit_rows: [num_logits, vocab], in the
  // workspace.
  // REQUIRES: a batch that CpuModel has checked.
  ConstRows forward(const ForwardBatch& batch);

  // Borrowed from now on; nullptr: none.
  void set_observer(InputObserver* observer) { observer_ = observer; }

 private:
  void run_layers(const ForwardBatch& batch);
  // The two halves of a layer; each adds to the residual stream `hidden`.
  void attention_block(size_t index, const ForwardBatch& batch);
  void mlp_block(size_t index, const ForwardBatch& batch);
  ConstRows logits(const ForwardBatch& batch);
  void save_hidden(const ForwardBatch& batch);
  // How a part of a product goes into the residual stream, to be summed over all ranks.
  LinearEpilogue residual_epilogue() const;
  void sum_over_ranks(Rows hidden);
  // Which matrix is multiplied after that one; after the head the next forward()'s first.
  const WeightMatrix& matrix_after(const MatrixPlace& place) const;
  // A product with one of the model's matrices, in the workspace's scratch.
  void product(const MatrixPlace& place, MultiplyArgs args);

  float norm_eps() const { return static_cast<float>(parts_.config.rms_norm_eps); }

  Executor executor_;
  Parts parts_;
  InputObserver* observer_ = nullptr;
};

}  // namespace millrace
