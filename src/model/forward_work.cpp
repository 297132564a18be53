#include "model/forward_work.h"

#include <span>

#include "base/check.h"
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
    const size_t num_terms = quantization ? num_terms_of(input_rounding(*quantization, kind)) : 1;
    return num_inputs * num_outputs * static_cast<double>(num_terms);
  };
  const double kv = products(MatrixKind::kQkv, hidden, 2.0 * kv_size);
  const double rest_of_layer = products(MatrixKind::kQkv, hidden, q_size) +
                               products(MatrixKind::kAttentionOut, q_size, hidden) +
                               products(MatrixKind::kGateUp, hidden, 2.0 * mlp_size) +
                               products(MatrixKind::kDown, mlp_size, hidden);
  const double head = products(MatrixKind::kHead, hidden, static_cast<double>(config.head_size()));

  const OutputRows outputs = output_rows(batch);
  const double num_tokens = batch.num_tokens();
  const double num_outputs = static_cast<double>(outputs.num_rows());
  const double multiply_adds = layers * kv * num_tokens +
                               rest_of_layer * ((layers - 1.0) * num_tokens + num_outputs) +
                               head * batch.num_logits();
  const double pairs = (layers - 1.0) * num_pairs(batch.positions) + num_pairs(outputs.positions);
  double num_context_tokens = 0.0;
  for (const int32_t length : batch.context_lens) num_context_tokens += length;

  ForwardWork work;
  work.weight_bytes = static_cast<double>(bytes.step_weights);
  work.kv_bytes = num_context_tokens * static_cast<double>(bytes.kv_per_token);
  work.matrix_operations = 2.0 * multiply_adds;
  // A score and a weighted value are each a multiply-add for every element of q.
  work.attention_operations = 4.0 * q_size * pairs;
  return work;
}

}  // namespace millrace
