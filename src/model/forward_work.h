// What a forward pass must do at the least: bytes that have to come from memory and operations that
// have to be computed, whatever the kernels. Beside what the machine can do (kernels/
// machine_limits.h), these give the time below which no implementation gets. Pure arithmetic.
#pragma once

#include <cstddef>
#include <optional>

#include "kernels/quantized/quantization.h"
#include "model/config.h"
#include "model/forward_batch.h"

namespace millrace {

struct ForwardWork {
  double weight_bytes = 0.0;          // each matrix once a pass
  double kv_bytes = 0.0;              // each sequence's context once a pass
  double matrix_operations = 0.0;     // of products with weights; a multiply-add is two
  double attention_operations = 0.0;  // q k and p v of the pairs that causal attention has

  double bytes() const { return weight_bytes + kv_bytes; }
  double operations() const { return matrix_operations + attention_operations; }

  ForwardWork& operator+=(const ForwardWork& other);
};

// How the model lies in memory.
struct ModelBytes {
  size_t step_weights = 0;    // of the matrices that each pass reads whole
  size_t expert_weights = 0;  // of the experts of all layers
  size_t kv_per_token = 0;    // keys and values of all layers
};

// The weights that a pass of so many tokens reads. Which experts they choose is not known
// beforehand: counted are as many as are expected where each token takes its own at random.
[[nodiscard]] double weight_bytes_of_step(
    const ModelConfig& config, const ModelBytes& bytes, double num_tokens
);

// Norms, biases, embedding rows and activations are left out: together below a percent.
// `quantization`: of matrices that are multiplied as bytes; each byte of their inputs is a product
// of its own. Of the last layer all tokens need k and v, the rest only output_rows().
ForwardWork forward_work(
    const ModelConfig& config,
    const ModelBytes& bytes,
    const std::optional<Quantization>& quantization,
    const ForwardBatch& batch
);

}  // namespace millrace
