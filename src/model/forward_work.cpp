#include "model/forward_work.h"

#include <cmath>
#include <span>

#include "model/input_rounding.h"
#include "model/output_rows.h"

namespace millrace {
namespace {

// Of a token and one that it attends to.
double num_pairs(std::span<const int32_t> positions) {
  double sum = 0.0;
  for (const int32_t position : positions) sum += static_cast<double>(position) + 1.0;
  return sum;
}

}  // namespace

ForwardWork& ForwardWork::operator+=(const ForwardWork& other) {
  weight_bytes += other.weight_bytes;
  kv_bytes += other.kv_bytes;
  matrix_operations += other.matrix_operations;
  attention_operations += other.attention_operations;
  return *this;
}

double weight_bytes_of_step(const ModelConfig& config, const ModelBytes& bytes, double num_tokens) {
  const auto step = static_cast<double>(bytes.step_weights);
  if (!config.moe) return step;
  const double chosen = static_cast<double>(config.moe->num_experts_per_token) /
                        static_cast<double>(config.moe->num_experts);
  const double share = 1.0 - std::pow(1.0 - chosen, num_tokens);
  return step + share * static_cast<double>(bytes.expert_weights);
}

ForwardWork forward_work(
    const ModelConfig& config,
    const ModelBytes& bytes,
    const std::optional<Quantization>& quantization,
    const ForwardBatch& batch
) {
  const auto hidden = static_cast<double>(config.hidden_size);
  const auto q_size = static_cast<double>(config.q_size());
  const double kv_size = static_cast<double>(config.kv_size());
  // Multiply-adds of a token, with every term of its inputs.
  const auto products = [&](MatrixKind kind, double num_inputs, double num_outputs) {
    const size_t num_terms = quantization ? num_terms_of(input_rounding(*quantization, kind)) : 1;
    return num_inputs * num_outputs * static_cast<double>(num_terms);
  };
  const auto feed_forward = [&](int64_t width) {
    const auto size = static_cast<double>(width);
    return products(MatrixKind::kGateUp, hidden, 2.0 * size) +
           products(MatrixKind::kDown, size, hidden);
  };
  const auto mlp = [&](int64_t layer) {
    if (!config.has_experts(layer)) return feed_forward(config.intermediate_size);
    const MoeConfig& moe = *config.moe;
    const int64_t routed = moe.num_experts_per_token * moe.expert_intermediate_size;
    // The router's inputs have one term.
    return hidden * static_cast<double>(moe.num_experts) +
           feed_forward(routed + moe.shared_expert_intermediate_size);
  };
  const double kv = products(MatrixKind::kQkv, hidden, 2.0 * kv_size);
  const double attention = products(MatrixKind::kQkv, hidden, q_size) +
                           products(MatrixKind::kAttentionOut, q_size, hidden);
  const double head = products(MatrixKind::kHead, hidden, static_cast<double>(config.head_size()));

  const OutputRows outputs = output_rows(batch);
  const double num_tokens = batch.num_tokens();
  const double num_outputs = static_cast<double>(outputs.num_rows());
  double multiply_adds = head * batch.num_logits();
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    const double num_finished = layer + 1 == config.num_layers ? num_outputs : num_tokens;
    multiply_adds += kv * num_tokens + (attention + mlp(layer)) * num_finished;
  }
  const double pairs = static_cast<double>(config.num_layers - 1) * num_pairs(batch.positions) +
                       num_pairs(outputs.positions);
  double num_context_tokens = 0.0;
  for (const int32_t length : batch.context_lens) num_context_tokens += length;

  ForwardWork work;
  work.weight_bytes = weight_bytes_of_step(config, bytes, num_tokens);
  work.kv_bytes = num_context_tokens * static_cast<double>(bytes.kv_per_token);
  work.matrix_operations = 2.0 * multiply_adds;
  // A score and a weighted value are each a multiply-add for every element of q.
  work.attention_operations = 4.0 * q_size * pairs;
  return work;
}

}  // namespace millrace
