#include "model/weight_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace millrace {
namespace {

class TensorList {
 public:
  void add(std::string name, std::vector<int64_t> shape, TensorRole role) {
    ExpectedTensor tensor;
    tensor.info.name = std::move(name);
    tensor.info.shape = std::move(shape);
    tensor.role = role;
    tensors_.push_back(std::move(tensor));
  }

  // A matrix [out, in] and, if there is one, its bias [out].
  void add_linear(
      const std::string& name, std::pair<int64_t, int64_t> out_in, bool bias, TensorRole role
  ) {
    add(name + ".weight", {out_in.first, out_in.second}, role);
    if (bias) add(name + ".bias", {out_in.first}, role);
  }

  std::vector<ExpectedTensor> take() && { return std::move(tensors_); }

 private:
  std::vector<ExpectedTensor> tensors_;
};

void add_attention(const ModelConfig& config, const std::string& layer, TensorList& list) {
  const std::string prefix = layer + "self_attn.";
  const int64_t hidden = config.hidden_size;
  const TensorRole role = TensorRole::kAttention;
  list.add_linear(prefix + "q_proj", {config.q_size(), hidden}, config.attention_bias, role);
  list.add_linear(prefix + "k_proj", {config.kv_size(), hidden}, config.attention_bias, role);
  list.add_linear(prefix + "v_proj", {config.kv_size(), hidden}, config.attention_bias, role);
  if (config.qk_norm) {
    list.add(prefix + "q_norm.weight", {config.head_dim}, TensorRole::kNorm);
    list.add(prefix + "k_norm.weight", {config.head_dim}, TensorRole::kNorm);
  }
  list.add_linear(prefix + "o_proj", {hidden, config.q_size()}, config.attention_out_bias, role);
}

struct FeedForward {
  int64_t hidden = 0;
  int64_t intermediate = 0;
  bool bias = false;
  TensorRole role = TensorRole::kMlp;
};

void add_feed_forward(const FeedForward& sizes, const std::string& prefix, TensorList& list) {
  const auto [hidden, intermediate, bias, role] = sizes;
  list.add_linear(prefix + "gate_proj", {intermediate, hidden}, bias, role);
  list.add_linear(prefix + "up_proj", {intermediate, hidden}, bias, role);
  list.add_linear(prefix + "down_proj", {hidden, intermediate}, bias, role);
}

void add_experts(const ModelConfig& config, const std::string& prefix, TensorList& list) {
  const MoeConfig& moe = *config.moe;
  const int64_t hidden = config.hidden_size;
  list.add(prefix + "gate.weight", {moe.num_experts, hidden}, TensorRole::kRouter);
  const FeedForward expert{
      .hidden = hidden,
      .intermediate = moe.expert_intermediate_size,
      .role = TensorRole::kExperts,
  };
  for (int64_t i = 0; i < moe.num_experts; ++i) {
    add_feed_forward(expert, fmt::format("{}experts.{}.", prefix, i), list);
  }
  if (moe.shared_expert_intermediate_size == 0) return;
  const FeedForward shared{
      .hidden = hidden,
      .intermediate = moe.shared_expert_intermediate_size,
      .role = TensorRole::kExperts,
  };
  add_feed_forward(shared, prefix + "shared_expert.", list);
  list.add(prefix + "shared_expert_gate.weight", {1, hidden}, TensorRole::kRouter);
}

// Buffers that checkpoints of older versions carry and that follow from the configuration.
bool is_harmless(std::string_view name) {
  return name.ends_with("rotary_emb.inv_freq") || name == "lm_head.weight";
}

// GPTQ's tools write a bias beside every matrix that they quantize, also where the model has none.
bool is_bias_of_zeros(const TensorInfo& tensor, const WeightSource& source) {
  constexpr std::string_view kBias = ".bias";
  if (!tensor.name.ends_with(kBias) || tensor.shape.size() != 1) return false;
  const std::string module = tensor.name.substr(0, tensor.name.size() - kBias.size());
  const TensorInfo* const matrix = source.find(module + ".weight");
  if (matrix == nullptr || matrix->shape.size() != 2 || matrix->shape[0] != tensor.shape[0] ||
      !check_readable(tensor)) {
    return false;
  }
  std::vector<float> values(static_cast<size_t>(tensor.row_length()));
  source.read_rows(tensor, 0, 1, values);
  return std::ranges::all_of(values, [](float value) { return value == 0; });
}

// A head that is stored beside tied embeddings is passed over, so it must be the same matrix.
Result<void> check_tied_head(const TensorInfo& embedding, const WeightSource& source) {
  const TensorInfo* head = source.find("lm_head.weight");
  if (head == nullptr) return {};
  constexpr int64_t kRowsAtOnce = 64;
  bool is_equal = head->shape == embedding.shape && check_readable(*head).ok();
  std::vector<float> rows(static_cast<size_t>(kRowsAtOnce * embedding.row_length()));
  std::vector<float> head_rows(rows.size());
  for (int64_t row = 0; is_equal && row < embedding.num_rows(); row += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, embedding.num_rows() - row);
    const auto size = static_cast<size_t>(count * embedding.row_length());
    source.read_rows(embedding, row, count, std::span(rows).first(size));
    source.read_rows(*head, row, count, std::span(head_rows).first(size));
    is_equal =
        std::equal(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(size), head_rows.begin());
  }
  if (is_equal) return {};
  return invalid_argument(
      "tensor 'lm_head.weight' differs from the embedding, and tie_word_embeddings says that they "
      "are one",
      "lm_head.weight"
  );
}

}  // namespace

std::vector<ExpectedTensor> expected_tensors_with_roles(const ModelConfig& config) {
  TensorList list;
  const int64_t hidden = config.hidden_size;
  list.add("model.embed_tokens.weight", {config.vocab_size, hidden}, TensorRole::kEmbedding);
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    list.add(layer + "input_layernorm.weight", {hidden}, TensorRole::kNorm);
    add_attention(config, layer, list);
    list.add(layer + "post_attention_layernorm.weight", {hidden}, TensorRole::kNorm);
    if (config.has_experts(i)) {
      add_experts(config, layer + "mlp.", list);
    } else {
      const FeedForward dense{
          .hidden = hidden, .intermediate = config.intermediate_size, .bias = config.mlp_bias};
      add_feed_forward(dense, layer + "mlp.", list);
    }
  }
  list.add("model.norm.weight", {hidden}, TensorRole::kNorm);
  if (!config.tie_word_embeddings) {
    list.add("lm_head.weight", {config.head_size(), hidden}, TensorRole::kLmHead);
  }
  return std::move(list).take();
}

std::vector<TensorInfo> expected_tensors(const ModelConfig& config) {
  std::vector<TensorInfo> infos;
  for (ExpectedTensor& tensor : expected_tensors_with_roles(config)) {
    infos.push_back(std::move(tensor.info));
  }
  return infos;
}

std::vector<std::string> router_names(const MoeConfig& moe, size_t layer) {
  const std::string prefix = fmt::format("model.layers.{}.mlp.", layer);
  std::vector<std::string> names = {prefix + "gate.weight"};
  if (moe.shared_expert_intermediate_size > 0) {
    names.push_back(prefix + "shared_expert_gate.weight");
  }
  return names;
}

int64_t num_parameters(const ModelConfig& config) {
  int64_t total = 0;
  for (const TensorInfo& info : expected_tensors(config))
    total += info.num_rows() * info.row_length();
  return total;
}

Result<void> check_tensor(const TensorInfo& expected, const TensorInfo* found) {
  if (found == nullptr) {
    return not_found(
        fmt::format(
            "tensor '{}' is missing: expected shape {}", expected.name, format_shape(expected.shape)
        ),
        expected.name
    );
  }
  if (found->shape != expected.shape) {
    return invalid_argument(
        fmt::format(
            "tensor '{}' has shape {}: expected {}",
            expected.name,
            format_shape(found->shape),
            format_shape(expected.shape)
        ),
        expected.name
    );
  }
  return check_readable(*found);
}

Result<void> check_tensors(const ModelConfig& config, const WeightSource& source) {
  std::unordered_set<std::string> used;
  for (TensorInfo& expected : expected_tensors(config)) {
    const Result<void> good = check_tensor(expected, source.find(expected.name));
    if (!good) return good.error();
    used.insert(std::move(expected.name));
  }
  for (const TensorInfo& found : source.tensors()) {
    if (used.contains(found.name) || is_harmless(found.name)) continue;
    if (is_bias_of_zeros(found, source)) continue;
    return invalid_argument(
        fmt::format(
            "tensor '{}' {} belongs to no part of a {} model: the configuration and the weights "
            "do not fit each other",
            found.name.substr(0, 120),
            format_shape(found.shape),
            name_of(config.family)
        ),
        found.name.substr(0, 120)
    );
  }
  if (!config.tie_word_embeddings) return {};
  return check_tied_head(*source.find("model.embed_tokens.weight"), source);
}

}  // namespace millrace
