// A dense decoder-only transformer as a device's operators compute it: model/decoder.h's diagram,
// given to a stream. No state of its own; views of what CudaModel owns. Of a model that several
// ranks share, each computes its part, as there.
#pragma once

#include "cuda/communicator.h"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/write_kv.h"
#include "cuda/model/device_kv_cache.h"
#include "cuda/model/device_weights.h"
#include "cuda/model/device_workspace.h"
#include "cuda/model/step_inputs.h"
#include "model/config.h"

namespace millrace::cuda {

class DeviceDecoder {
 public:
  struct Parts {
    const ModelConfig& config;
    const DeviceWeights& weights;
    const DeviceKvCache& kv_cache;
    const DeviceWorkspace& workspace;
    const DeviceBuffer& rope;          // [max_model_len][2][head_dim / 2], cosines and sines
    const DeviceBuffer& saved_hidden;  // [num_hidden_slots, hidden]
    Communicator* communicator;        // null: this process has the whole model
  };

  explicit DeviceDecoder(const Parts& parts) : parts_(parts) {}

  // The tokens: their K and V, and their last hidden states, in the workspace. Everything a launch
  // depends on is in the view's shape and in `context_len_max`, tokens of the longest context: with
  // the same two, a graph of it may be used again.
  void layers(StreamHandle stream, const StepView& step, size_t context_len_max) const;

  // Then the logits, in the workspace: [num_logits, vocab].
  void logits(StreamHandle stream, const StepView& step) const;

 private:
  // What is multiplied and what follows, of LinearArgs; sizes and bias are the matrix's.
  struct Product {
    const uint16_t* x = nullptr;  // [num_tokens, matrix.num_inputs], bfloat16
    size_t num_tokens = 0;
    LinearEpilogue epilogue = LinearEpilogue::kStore;
    float* out = nullptr;
    uint16_t* activation = nullptr;
  };

  // Rows of the residual stream, and what weighs them when they are normed.
  struct NormedRows {
    const float* x = nullptr;       // [num_tokens, hidden]
    const float* weight = nullptr;  // [hidden]
  };

  // The kernel that is for the matrix's format.
  void multiply(StreamHandle stream, const DeviceMatrix& matrix, const Product& product) const;
  // A quantized matrix with the workspace's `rotated`; product.x is not looked at.
  void multiply_rotated(StreamHandle stream, const DeviceMatrix& matrix, const Product& product)
      const;

  // REQUIRES: product.x is the workspace's `normed`.
  void multiply_normed(
      StreamHandle stream,
      const NormedRows& rows,
      const DeviceMatrix& matrix,
      const Product& product
  ) const;
  static LinearArgs linear_args(const DeviceMatrix& matrix, const Product& product);

  // The two halves of a layer; each adds to the residual stream `hidden`.
  void attention_block(
      StreamHandle stream, size_t index, const StepView& step, size_t context_len_max
  ) const;
  // From qkv, and what it writes of k and v, to the workspace's attention.
  void attend(
      StreamHandle stream, const WriteKvArgs& fresh, const StepView& step, size_t context_len_max
  ) const;
  void mlp_block(StreamHandle stream, size_t index, size_t num_tokens) const;
  void join_logits(StreamHandle stream, size_t num_logits) const;
  // How a part of a product goes into the residual stream, to be summed over all ranks.
  LinearEpilogue residual_epilogue() const;
  void sum_over_ranks(StreamHandle stream, size_t num_tokens) const;

  // This rank's part of the logits.
  float* own_logits(size_t num_logits) const;
  size_t hidden_size() const { return static_cast<size_t>(parts_.config.hidden_size); }

  Parts parts_;
};

}  // namespace millrace::cuda
