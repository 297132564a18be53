// Tiny models for the tests of quantization: as those of model/model_test_data.h, with inputs and
// rows of very different sizes, so that there is something to smooth.
#pragma once

#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/cpu_model.h"
#include "model/model_test_data.h"
#include "quantization/input_moments.h"

namespace millrace {

class UnevenWeights : public TinyWeights {
 public:
  using TinyWeights::TinyWeights;

  void read_rows(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, std::span<float> out
  ) const override {
    TinyWeights::read_rows(tensor, row_begin, num_rows, out);
    const bool is_vector = tensor.shape.size() == 1;
    const bool is_made = tensor.name.ends_with("norm.weight") ||
                         tensor.name.find("v_proj") != std::string::npos ||
                         tensor.name.find("up_proj") != std::string::npos;
    if (!is_made) return;
    const auto width = static_cast<size_t>(tensor.row_length());
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t row = is_vector ? i : static_cast<size_t>(row_begin) + i / width;
      if (row % 11 == 3) out[i] *= 6.0F;
      if (row % 5 == 1) out[i] *= 0.25F;
    }
  }
};

// GQA and all biases; qkv biases and a tied head; norms of q and k.
inline std::vector<ModelConfig> tiny_configs() {
  std::vector<ModelConfig> configs;
  for (const ModelFamily family : kDenseFamilies) configs.push_back(tiny_config(family));
  configs[0].attention_bias = true;
  configs[0].attention_out_bias = true;
  configs[0].mlp_bias = true;
  return configs;
}

inline std::vector<TokenId> random_tokens(size_t size, uint64_t seed) {
  std::vector<TokenId> tokens(size);
  Rng rng(seed);
  for (TokenId& token : tokens) token = static_cast<TokenId>(rng.below(103));
  return tokens;
}

inline CpuModelOptions tiny_options(std::optional<QuantizedFormat> quantization = {}) {
  return {
      .dtype = DType::kFloat32,
      .quantization = quantization,
      .kv_dtype = DType::kFloat32,
      .block_size = 16,
      .num_blocks = 64,
      .max_model_len = 600,
      .max_num_batched_tokens = 600,
      .max_num_logits = 600,
  };
}

// The logits of every token: [num_tokens, vocab].
inline std::vector<float> logits_of(CpuModel& model, const std::vector<TokenId>& tokens) {
  std::vector<TestSequence> sequences = make_sequences(model, {{tokens}}, 5);
  const TestChunk chunk = {sequences.data(), static_cast<int32_t>(tokens.size())};
  const std::span<const float> logits = model.forward(make_batch({{chunk}}, model.block_size()));
  return {logits.begin(), logits.end()};
}

// The root of the squared difference over the square of `expected`.
inline double relative_difference(std::span<const float> found, std::span<const float> expected) {
  double difference = 0.0;
  double square = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double own = static_cast<double>(found[i]) - static_cast<double>(expected[i]);
    difference += own * own;
    square += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  return std::sqrt(difference / square);
}

inline std::unique_ptr<CpuModel> load_tiny(
    const ModelConfig& config,
    const WeightSource& source,
    ThreadPool& pool,
    std::optional<QuantizedFormat> quantization = {}
) {
  return *CpuModel::load(config, source, tiny_options(quantization), pool);
}

// Of a model in float32 that reads `tokens`.
inline InputMoments moments_of(
    const ModelConfig& config,
    const WeightSource& source,
    const std::vector<TokenId>& tokens,
    ThreadPool& pool
) {
  InputMoments moments(pool);
  const std::unique_ptr<CpuModel> model = load_tiny(config, source, pool);
  model->set_observer(&moments);
  (void)logits_of(*model, tokens);
  return moments;
}

}  // namespace millrace
