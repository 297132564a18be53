// The weights of a decoder-only model as the operators read them: matrices packed in the chosen
// format, q, k and v in one matrix, gate and up in one, a layer's experts one below the other in
// two; norms and biases as float32.
// Made once at load, then read-only and shared by all threads.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/weight_source.h"
#include "kernels/quantized/error_feedback.h"
#include "kernels/quantized/weight_matrix.h"
#include "model/config.h"
#include "model/matrix_place.h"

namespace millrace {

// A mixture of experts, whose sizes are those of config.moe. The matrices of an expert are a part
// of whole panels (kernels/experts/row_groups.h).
struct ExpertWeights {
  // [num_experts, hidden], not quantized; one row more, the last, for the gate of a shared expert
  WeightMatrix router;
  WeightMatrix gate_up;  // of each expert as a layer's gate_up
  WeightMatrix down;     // of each expert [round_up(hidden, 16), expert_intermediate]
};

// Biases are in the order of their matrix's packed rows, zero-padded to whole panels of 16; a model
// without them has empty ones.
struct LayerWeights {
  std::vector<float> attention_norm;  // [hidden]
  WeightMatrix qkv;                   // [q_size + 2 * kv_size, hidden]: q, k, v one below the other
  std::vector<float> qkv_bias;
  std::vector<float> q_norm;   // [head_dim] or empty
  std::vector<float> k_norm;   // [head_dim] or empty
  WeightMatrix attention_out;  // [hidden, q_size]
  std::vector<float> attention_out_bias;
  std::vector<float> mlp_norm;  // [hidden]
  // Of the feed-forward network; of a layer with experts the shared one's, or empty.
  WeightMatrix gate_up;  // [2 * round_up(intermediate, 16), hidden]: panels alternate
  std::vector<float> gate_up_bias;
  WeightMatrix down;  // [hidden, intermediate]
  std::vector<float> down_bias;
  std::optional<ExpertWeights> experts;
};

struct ModelWeights {
  WeightMatrix embedding;  // [vocab, hidden], not quantized, but may be codes that it came as
  // [vocab, hidden]; none: the embedding, where they are tied and kept in the same format
  std::optional<WeightMatrix> lm_head;
  std::vector<float> final_norm;  // [hidden]
  std::vector<LayerWeights> layers;

  const WeightMatrix& output_head() const { return lm_head ? *lm_head : embedding; }
  size_t num_bytes() const;  // of all matrices
  // Of those that every step reads whole: all but an embedding that is not the output head too, and
  // experts.
  size_t num_step_bytes() const;
  size_t num_expert_bytes() const;  // of the experts of all layers, which a step reads some of
};

// Called after each matrix or vector, from the loading thread.
using LoadProgress = std::function<void(size_t num_tensors_done, size_t num_tensors)>;

// How a matrix's rounding errors are fed back (kernels/quantized/error_feedback.h); asked for once
// for each quantized matrix, from the loading thread, before it is filled.
using FeedbackSource = std::function<ErrorFeedback(const MatrixPlace& place)>;

// Reads every tensor, rounds matrices to `format` and packs them.
// Refuses, before anything is read, what check_tensors() refuses: a tensor that is missing, has
// another shape or would be left unused; what CodedMatrices::find() refuses, of codes. Then
// bfloat16 matrices that PackedMatrix has no room for, and in a quantized model values, scales and
// bases that are not finite. kResourceExhausted for memory. Errors of experts are not fed back.
Result<ModelWeights> load_weights(
    const ModelConfig& config,
    const WeightSource& source,
    const WeightFormat& format,
    ThreadPool& pool,
    const LoadProgress& progress = {},
    const FeedbackSource& feedback = {}
);

// Tensors of one width, one below the other in one matrix, as load_weights() reads them.
// REQUIRES: matrices of `source` that check_readable() lets pass.
Result<WeightMatrix> load_matrix(
    const WeightSource& source,
    const std::vector<std::string>& names,
    MatrixFormat format,
    ThreadPool& pool
);

}  // namespace millrace
