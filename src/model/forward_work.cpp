#include "model/forward_work.h"

#include "base/check.h"
#include "model/input_terms.h"

namespace millrace {

ForwardWork& ForwardWork::operator+=(const ForwardWork& other) {
  weight_bytes += other.weight_bytes;
  kv_bytes += other.kv_bytes;
  matrix_operations += other.matrix_operations;
  attention_operations += other.attention_operations;
  return *this;
}

ForwardWork forward_work(
    const ModelConfig& config,
    const ModelBytes& bytes,
    const std::optional<Quantization>& quantization,
    const ForwardBatch& batch
) {
  CHECK(!config.moe, "which experts a token needs is not known beforehand");
  const auto hidden = static_cast<double>(config.hidden_size);
  const auto layers = static_cast<double>(config.num_layers);
  const auto q_size = static_cast<double>(config.q_size());
  const double kv_size = static_cast<double>(config.kv_size());
  const double mlp_size = static_cast<double>(config.intermediate_size);
  // Multiply-adds of a token, with every term of its inputs.
  const auto products = [&](MatrixKind kind, double num_inputs, double num_outputs) {
    return num_inputs * num_outputs * static_cast<double>(num_input_terms(quantization, kind));
  };
  const double layer = products(MatrixKind::kQkv, hidden, q_size + 2.0 * kv_size) +
                       products(MatrixKind::kAttentionOut, q_size, hidden) +
                       products(MatrixKind::kGateUp, hidden, 2.0 * mlp_size) +
                       products(MatrixKind::kDown, mlp_size, hidden);
  const double head = products(MatrixKind::kHead, hidden, static_cast<double>(config.head_size()));

  double num_pairs = 0.0;  // of a token and one that it attends to
  for (const int32_t position : batch.positions) num_pairs += static_cast<double>(position) + 1.0;
  double num_context_tokens = 0.0;
  for (const int32_t length : batch.context_lens) num_context_tokens += length;

  ForwardWork work;
  work.weight_bytes = static_cast<double>(bytes.step_weights);
  work.kv_bytes = num_context_tokens * static_cast<double>(bytes.kv_per_token);
  work.matrix_operations = 2.0 * (layers * layer * batch.num_tokens() + head * batch.num_logits());
  // A score and a weighted value are each a multiply-add for every element of q.
  work.attention_operations = 4.0 * layers * q_size * num_pairs;
  return work;
}

}  // namespace millrace
