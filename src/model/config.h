// The shape of a model, from config.json (or a GGUF file's metadata in the same words).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "base/json.h"
#include "base/result.h"
#include "kernels/quantized/quantized_matrix.h"
#include "tensor/dtype.h"

namespace millrace {

enum class ModelFamily { kLlama, kQwen2, kQwen3, kQwen2Moe, kQwen3Moe };

// "llama", "qwen2", "qwen3", "qwen2_moe", "qwen3_moe": config.json's model_type.
[[nodiscard]] std::string_view name_of(ModelFamily family);

// Llama-3.1's stretching of low rotary frequencies ("rope_type": "llama3").
struct Llama3RopeScaling {
  double factor = 8.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position_embeddings = 8192;
};

// Experts instead of one feed-forward network; the router picks some for each token.
struct MoeConfig {
  int64_t num_experts = 0;
  int64_t num_experts_per_token = 0;
  int64_t expert_intermediate_size = 0;
  int64_t shared_expert_intermediate_size = 0;  // 0: none
  int64_t decoder_sparse_step = 1;
  std::vector<int64_t> dense_layers;  // "mlp_only_layers"
  bool normalize_topk = false;
};

// Of the layout in which `millrace quantize` keeps matrices. int4 had another codebook in its first
// (docs/decisions/0034), and a head of 8 bits in its second (0037).
constexpr int64_t stored_weights_version(QuantizedFormat format) {
  return format == QuantizedFormat::kInt4 ? 3 : 1;
}

struct ModelConfig {
  ModelFamily family = ModelFamily::kLlama;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;  // need not be hidden_size / num_heads
  int64_t vocab_size = 0;
  // Processes that share the output head (shard.h); none: this one has it whole.
  std::optional<int64_t> num_head_parts;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  std::optional<Llama3RopeScaling> rope_scaling;
  bool attention_bias = false;  // on q, k and v (and on o where `attention_out_bias`)
  bool attention_out_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;  // an rms_norm over each head of q and k before rope
  bool tie_word_embeddings = false;
  std::optional<MoeConfig> moe;
  std::optional<DType> dtype;  // "torch_dtype" or "dtype"
  // What `millrace quantize` made (stored_weights.h); none: weights as they were trained.
  std::optional<QuantizedFormat> stored_quantization;
  std::optional<TokenId> bos_token_id;
  std::vector<TokenId> eos_token_ids;

  int64_t q_size() const { return num_heads * head_dim; }
  int64_t kv_size() const { return num_kv_heads * head_dim; }
  // Rows of the output head that this process has: of a part, whole panels of 16.
  int64_t head_size() const;

  // Whether the layer's feed-forward network is a mixture of experts.
  bool has_experts(int64_t layer) const;
};

// Reads config.json's object, in the spelling of transformers 4 or 5. Where a key is absent, the
// default is that of transformers' configuration class. Every size is checked for range and
// consistency; a feature that would change the result and is not implemented (a rope type, sliding
// windows in use, another activation) is refused by its name, with the JSON path in the error's
// `where`.
Result<ModelConfig> parse_model_config(const json::object& config);

}  // namespace millrace
