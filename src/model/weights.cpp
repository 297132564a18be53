#include "model/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "model/coded_matrices.h"
#include "model/weight_loader.h"
#include "model/weight_names.h"

namespace millrace {
namespace {

constexpr size_t kPanelRows = WeightMatrix::kPanelRows;

std::string layer_prefix(size_t layer) {
  return fmt::format("model.layers.{}.", layer);
}

// Biases one below the other, padded to whole panels.
std::vector<float> stacked_bias(std::initializer_list<std::vector<float>> parts) {
  std::vector<float> bias;
  for (const std::vector<float>& part : parts) bias.insert(bias.end(), part.begin(), part.end());
  bias.resize(round_up(bias.size(), kPanelRows));
  return bias;
}

// Two biases of the same size, their panels in turn.
std::vector<float> alternating_bias(std::span<const float> even, std::span<const float> odd) {
  std::vector<float> bias(2 * round_up(even.size(), kPanelRows));
  for (size_t i = 0; i < even.size(); ++i) {
    const size_t row = i / kPanelRows * 2 * kPanelRows + i % kPanelRows;
    bias[row] = even[i];
    bias[row + kPanelRows] = odd[i];
  }
  return bias;
}

Result<void> load_into(WeightMatrix& matrix, Result<WeightMatrix> loaded) {
  if (!loaded) return loaded.error();
  matrix = *std::move(loaded);
  return {};
}

Result<void> load_attention(
    const ModelConfig& config, size_t index, WeightLoader& loader, LayerWeights& layer
) {
  const std::string prefix = layer_prefix(index);
  const std::string q = prefix + "self_attn.q_proj.";
  const std::string k = prefix + "self_attn.k_proj.";
  const std::string v = prefix + "self_attn.v_proj.";
  const std::string out = prefix + "self_attn.o_proj.";
  layer.attention_norm = loader.vector(prefix + "input_layernorm.weight");
  const std::vector<std::string> qkv = {q + "weight", k + "weight", v + "weight"};
  Result<WeightMatrix> stacked = loader.stacked(qkv, {MatrixKind::kQkv, index});
  if (Result<void> done = load_into(layer.qkv, std::move(stacked)); !done) return done;
  if (config.attention_bias) {
    layer.qkv_bias = stacked_bias(
        {loader.vector(q + "bias"), loader.vector(k + "bias"), loader.vector(v + "bias")}
    );
  }
  if (config.qk_norm) {
    layer.q_norm = loader.vector(prefix + "self_attn.q_norm.weight");
    layer.k_norm = loader.vector(prefix + "self_attn.k_norm.weight");
  }
  if (config.attention_out_bias) {
    layer.attention_out_bias = stacked_bias({loader.vector(out + "bias")});
  }
  const MatrixPlace place = {MatrixKind::kAttentionOut, index};
  return load_into(layer.attention_out, loader.stacked({out + "weight"}, place));
}

// `prefix`: of the network's tensors, which may be a shared expert's.
Result<void> load_feed_forward(
    const std::string& prefix,
    bool has_bias,
    size_t index,
    WeightLoader& loader,
    LayerWeights& layer
) {
  const std::string gate = prefix + "gate_proj.";
  const std::string up = prefix + "up_proj.";
  const std::string down = prefix + "down_proj.";
  Result<WeightMatrix> gate_up =
      loader.alternating(gate + "weight", up + "weight", {MatrixKind::kGateUp, index});
  if (Result<void> done = load_into(layer.gate_up, std::move(gate_up)); !done) return done;
  if (has_bias) {
    layer.gate_up_bias = alternating_bias(loader.vector(gate + "bias"), loader.vector(up + "bias"));
    layer.down_bias = stacked_bias({loader.vector(down + "bias")});
  }
  return load_into(layer.down, loader.stacked({down + "weight"}, {MatrixKind::kDown, index}));
}

Result<void> load_experts(
    const MoeConfig& moe, size_t index, WeightLoader& loader, LayerWeights& layer
) {
  const std::string prefix = layer_prefix(index) + "mlp.";
  const bool has_shared = moe.shared_expert_intermediate_size > 0;
  ExpertWeights& experts = layer.experts.emplace();
  Result<void> done = load_into(experts.router, loader.unquantized(router_names(moe, index)));
  if (!done) return done;
  const ExpertNames names = {prefix, static_cast<size_t>(moe.num_experts)};
  done = load_into(
      experts.gate_up, loader.alternating_expert_parts(names, "gate_proj.weight", "up_proj.weight")
  );
  if (!done) return done;
  done = load_into(experts.down, loader.expert_parts(names, "down_proj.weight"));
  if (!done || !has_shared) return done;
  return load_feed_forward(prefix + "shared_expert.", false, index, loader, layer);
}

Result<void> load_mlp(
    const ModelConfig& config, size_t index, WeightLoader& loader, LayerWeights& layer
) {
  const std::string prefix = layer_prefix(index);
  layer.mlp_norm = loader.vector(prefix + "post_attention_layernorm.weight");
  if (config.has_experts(static_cast<int64_t>(index))) {
    return load_experts(*config.moe, index, loader, layer);
  }
  return load_feed_forward(prefix + "mlp.", config.mlp_bias, index, loader, layer);
}

}  // namespace

size_t ModelWeights::num_bytes() const {
  size_t bytes = embedding.num_bytes() + (lm_head ? lm_head->num_bytes() : 0);
  for (const LayerWeights& layer : layers) {
    bytes += layer.qkv.num_bytes() + layer.attention_out.num_bytes();
    bytes += layer.gate_up.num_bytes() + layer.down.num_bytes();
    if (!layer.experts) continue;
    const ExpertWeights& experts = *layer.experts;
    bytes += experts.router.num_bytes() + experts.gate_up.num_bytes() + experts.down.num_bytes();
  }
  return bytes;
}

size_t ModelWeights::num_step_bytes() const {
  size_t bytes = output_head().num_bytes_read();
  for (const LayerWeights& layer : layers) {
    bytes += layer.qkv.num_bytes_read() + layer.attention_out.num_bytes_read();
    bytes += layer.gate_up.num_bytes_read() + layer.down.num_bytes_read();
    if (layer.experts) bytes += layer.experts->router.num_bytes_read();
  }
  return bytes;
}

size_t ModelWeights::num_expert_bytes() const {
  size_t bytes = 0;
  for (const LayerWeights& layer : layers) {
    if (!layer.experts) continue;
    bytes += layer.experts->gate_up.num_bytes_read() + layer.experts->down.num_bytes_read();
  }
  return bytes;
}

Result<ModelWeights> load_weights(
    const ModelConfig& config,
    const WeightSource& source,
    const WeightFormat& format,
    ThreadPool& pool,
    const LoadProgress& progress,
    const FeedbackSource& feedback
) {
  if (Result<void> checked = check_tensors(config, source); !checked) return checked.error();
  std::optional<CodedMatrices> coded;
  if (format.quantization && format.quantization->keeps_codes()) {
    Result<CodedMatrices> found = CodedMatrices::find(config, source);
    if (!found) return found.error();
    coded = *std::move(found);
  }

  // A tied embedding is read a second time where the head is kept in another format.
  const bool embedding_is_head = coded && coded->embedding_is_head();
  const bool has_tied_copy =
      config.tie_word_embeddings && format.quantization && !embedding_is_head;
  const size_t num_tensors = expected_tensors(config).size() + (has_tied_copy ? 1 : 0);
  WeightLoader loader(
      source,
      pool,
      {.format = format,
       .coded = coded ? &*coded : nullptr,
       .num_tensors = num_tensors,
       .progress = progress,
       .feedback = feedback}
  );
  ModelWeights weights;
  const std::string embedding_name = "model.embed_tokens.weight";
  Result<void> done = load_into(weights.embedding, loader.embedding(embedding_name));
  if (!done) return done.error();
  for (size_t i = 0; i < static_cast<size_t>(config.num_layers); ++i) {
    LayerWeights& layer = weights.layers.emplace_back();
    if (done = load_attention(config, i, loader, layer); !done) return done.error();
    if (done = load_mlp(config, i, loader, layer); !done) return done.error();
  }
  weights.final_norm = loader.vector("model.norm.weight");
  if (!config.tie_word_embeddings || has_tied_copy) {
    const std::string name = has_tied_copy ? embedding_name : "lm_head.weight";
    if (done = load_into(weights.lm_head.emplace(), loader.head(name)); !done) return done.error();
  }
  if (done = loader.check_vectors(); !done) return done.error();
  return weights;
}

Result<WeightMatrix> load_matrix(
    const WeightSource& source,
    const std::vector<std::string>& names,
    MatrixFormat format,
    ThreadPool& pool
) {
  const WeightFormat others;
  const LoadProgress nobody;
  const FeedbackSource none;
  WeightLoader loader(
      source,
      pool,
      {.format = others,
       .coded = nullptr,
       .num_tensors = names.size(),
       .progress = nobody,
       .feedback = none}
  );
  return loader.stacked(names, format);
}

}  // namespace millrace
