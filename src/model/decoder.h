// A decoder-only transformer as the operators compute it: Llama, Qwen2 and Qwen3, which differ in
// biases and in the norm of q and k alone, and the last two with experts instead of one
// feed-forward network. No state of its own; views of what CpuModel owns. Of a dense model that
// several processes share (shard.h), each computes its part, and they add up the residual stream
// after each half of a layer.
#pragma once

#include <optional>
#include <span>

#include "kernels/executor.h"
#include "kernels/quantized/quantization.h"
#include "kernels/quantized/weight_matrix.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "model/config.h"
#include "model/forward_batch.h"
#include "model/kv_cache.h"
#include "model/matrix_place.h"
#include "model/output_rows.h"
#include "model/weights.h"
#include "model/workspace.h"
#include "parallel/process_group.h"

namespace millrace {

// Sees what the matrices are given, before it is rounded as their formats want it.
// With one, the last layer finishes all tokens of a batch, wanted or not. Routers and experts are
// not seen.
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
  // The tokens that a layer finishes: all of a batch, or the last layer's.
  struct LayerRows {
    std::span<const int32_t> positions;   // [num_rows]
    std::span<const int32_t> cu_seqlens;  // [num_sequences + 1]

    size_t num_rows() const { return positions.size(); }
  };

  // Leaves the hidden states of `outputs` in the first rows of the residual stream `hidden`.
  void run_layers(const ForwardBatch& batch, const OutputRows& outputs);
  // The first half of a layer in two steps: q, k and v of all tokens, and k and v into the cache;
  // then attention of the first rows of q, which is added to those of `hidden`.
  void write_keys_and_values(size_t index, const ForwardBatch& batch);
  void attention_block(size_t index, const ForwardBatch& batch, const LayerRows& rows);
  // The second half, which is added to the first rows of `hidden`.
  void mlp_block(size_t index, size_t num_rows);
  // The network of a layer without experts, or the expert that all tokens share: `out` is what the
  // epilogue makes of it. In the workspace's `normed` stands what it is given, or will, by `norm`.
  void feed_forward(size_t index, Rows out, LinearEpilogue epilogue, const RmsNormRows* norm);
  RmsNormRows norm_of(ConstRows x, std::span<const float> weight, Rows out) const;
  void experts_block(size_t index, size_t num_rows);
  // Moves the rows of `hidden` and of q that the last layer finishes to the front.
  void keep_rows(const OutputRows& outputs);
  ConstRows logits(const ForwardBatch& batch, const OutputRows& outputs);
  void save_hidden(const ForwardBatch& batch, const OutputRows& outputs);
  // The residual stream of a token after the last layer.
  const float* state_of(int32_t token, const OutputRows& outputs);
  float* saved_state(int32_t slot);
  // How a part of a product goes into the residual stream, to be summed over all ranks.
  LinearEpilogue residual_epilogue() const;
  void sum_over_ranks(Rows hidden);
  // Which matrix is multiplied after that one; after the head the next forward()'s first.
  InputRounding rounding_of(const WeightMatrix& weights, MatrixKind kind) const;
  const WeightMatrix& matrix_after(const MatrixPlace& place) const;
  // A product with one of the model's matrices, in the workspace's scratch.
  void product(const MatrixPlace& place, MultiplyArgs args);
  // A product of the experts' rows with their parts of a matrix.
  void expert_product(MatrixKind kind, MultiplyArgs args);

  float norm_eps() const { return static_cast<float>(parts_.config.rms_norm_eps); }

  Executor executor_;
  Parts parts_;
  InputObserver* observer_ = nullptr;
};

}  // namespace millrace
