// The activations of one forward pass: allocated once from the limits, so that a step allocates
// nothing. Owned by the model; its content means nothing between two passes, except the logits.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "kernels/experts/expert_routes.h"
#include "kernels/quantized/weight_matrix.h"
#include "kernels/rows.h"
#include "model/config.h"
#include "tensor/buffer.h"

namespace millrace {

struct WorkspaceLimits {
  WeightFormat weights = {};
  size_t num_tokens_max = 0;  // of one batch
  size_t num_logits_max = 0;  // of one batch
  size_t context_max = 0;     // tokens of one sequence
  size_t num_threads = 0;
};

// Bytes of each part.
struct WorkspaceBytes {
  size_t hidden = 0;
  size_t normed = 0;
  size_t qkv = 0;
  size_t attention = 0;
  size_t activation = 0;
  size_t expert_rows = 0;
  size_t router = 0;
  size_t routes = 0;
  size_t logits_hidden = 0;
  size_t logits = 0;
  size_t head_part = 0;
  size_t attention_scratch = 0;
  size_t linear_scratch = 0;

  size_t total() const {
    return hidden + normed + qkv + attention + activation + expert_rows + router + routes +
           logits_hidden + logits + head_part + attention_scratch + linear_scratch;
  }
};

[[nodiscard]] WorkspaceBytes workspace_bytes(
    const ModelConfig& config, const WorkspaceLimits& limits
);

// Of one token: what a hidden slot keeps.
[[nodiscard]] size_t hidden_state_bytes(const ModelConfig& config);

// A float32 matrix of which a pass uses the first rows, or the memory of another shape.
class ActivationBuffer {
 public:
  ActivationBuffer() = default;
  static Result<ActivationBuffer> allocate(size_t num_bytes, size_t num_columns);

  // REQUIRES: num_rows within what was allocated.
  Rows rows(size_t num_rows) { return rows(num_rows, num_columns_); }
  Rows rows(size_t num_rows, size_t num_columns);

  size_t num_bytes() const { return buffer_.num_bytes(); }

 private:
  size_t num_columns_ = 0;
  Buffer buffer_;
};

struct Workspace {
  static Result<Workspace> allocate(const ModelConfig& config, const WorkspaceLimits& limits);

  ActivationBuffer hidden;     // [num_tokens_max, hidden], the residual stream
  ActivationBuffer normed;     // [num_tokens_max, hidden]
  ActivationBuffer qkv;        // [num_tokens_max, q_size + 2 * kv_size]
  ActivationBuffer attention;  // [num_tokens_max, q_size]
  // [num_tokens_max, intermediate]; of experts a row for each route, [num_tokens_max *
  // num_experts_per_token, expert_intermediate]
  ActivationBuffer activation;
  ActivationBuffer expert_rows;  // [num_tokens_max * num_experts_per_token, hidden]
  ActivationBuffer router;       // [num_tokens_max, num_experts], with a shared expert's gate
  ExpertRoutes routes;
  ActivationBuffer logits_hidden;  // [num_logits_max, hidden]
  ActivationBuffer logits;         // [num_logits_max, vocab]
  ActivationBuffer head_part;      // [num_logits_max, head_size], where the head is shared
  Buffer attention_scratch;        // paged_attention_scratch_size() floats
  Buffer linear_scratch;           // multiply_scratch_bytes() of the largest product
};

}  // namespace millrace
