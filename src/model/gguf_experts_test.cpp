// A mixture of experts out of a GGUF file is the model that Hugging Face's tensors make.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/test_folder.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/test_files.h"
#include "model/model_test_data.h"
#include "model/weight_names.h"

namespace millrace {
namespace {

using namespace testing_files;

// The format's name of a tensor that is one there too.
std::string gguf_name(const std::string& name) {
  static const std::map<std::string, std::string> kParts = {
      {"input_layernorm", "attn_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"post_attention_layernorm", "ffn_norm"},
      {"mlp.gate", "ffn_gate_inp"},
      {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
      {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
      {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
      {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
  };
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  const std::string rest = name.substr(std::string("model.layers.").size());
  const size_t dot = rest.find('.');
  const size_t suffix = rest.rfind('.');
  const std::string part = rest.substr(dot + 1, suffix - dot - 1);
  return "blk." + rest.substr(0, dot) + "." + kParts.at(part) + rest.substr(suffix);
}

std::string bytes_of(const WeightSource& source, const TensorInfo& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.num_rows() * tensor.row_length()));
  source.read_rows(tensor, 0, tensor.num_rows(), values);
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

void write_layer_experts(
    const ModelConfig& config, const WeightSource& source, int64_t layer, GgufWriter& writer
) {
  for (const char* const part : {"gate", "up", "down"}) {
    std::string data;
    const TensorInfo* tensor = nullptr;
    for (int64_t i = 0; i < config.moe->num_experts; ++i) {
      tensor =
          source.find(fmt::format("model.layers.{}.mlp.experts.{}.{}_proj.weight", layer, i, part));
      data += bytes_of(source, *tensor);
    }
    const std::vector<uint64_t> dims = {
        static_cast<uint64_t>(tensor->shape[1]),
        static_cast<uint64_t>(tensor->shape[0]),
        static_cast<uint64_t>(config.moe->num_experts)};
    writer.tensor(fmt::format("blk.{}.ffn_{}_exps.weight", layer, part), dims, 0, data);
  }
}

std::string gguf_of(const ModelConfig& config, const WeightSource& source) {
  const auto count = [](int64_t value) { return static_cast<uint32_t>(value); };
  GgufWriter writer;
  writer.string("general.architecture", "qwen2moe")
      .uint32("qwen2moe.embedding_length", count(config.hidden_size))
      .uint32("qwen2moe.feed_forward_length", count(config.intermediate_size))
      .uint32("qwen2moe.block_count", count(config.num_layers))
      .uint32("qwen2moe.attention.head_count", count(config.num_heads))
      .uint32("qwen2moe.attention.head_count_kv", count(config.num_kv_heads))
      .uint32("qwen2moe.attention.key_length", count(config.head_dim))
      .uint32("qwen2moe.context_length", count(config.max_position_embeddings))
      .float32("qwen2moe.attention.layer_norm_rms_epsilon", 1e-5F)
      .float32("qwen2moe.rope.freq_base", static_cast<float>(config.rope_theta))
      .uint32("qwen2moe.expert_count", count(config.moe->num_experts))
      .uint32("qwen2moe.expert_used_count", count(config.moe->num_experts_per_token))
      .uint32("qwen2moe.expert_feed_forward_length", count(config.moe->expert_intermediate_size))
      .uint32(
          "qwen2moe.expert_shared_feed_forward_length",
          count(config.moe->shared_expert_intermediate_size)
      );
  for (const TensorInfo& tensor : source.tensors()) {
    if (tensor.name.find(".experts.") != std::string::npos) continue;
    std::vector<uint64_t> dims(tensor.shape.rbegin(), tensor.shape.rend());
    if (tensor.name.ends_with("shared_expert_gate.weight")) dims.pop_back();  // a vector there
    writer.tensor(gguf_name(tensor.name), dims, 0, bytes_of(source, tensor));
  }
  for (int64_t i = 0; i < config.num_layers; ++i) write_layer_experts(config, source, i, writer);
  return writer.file();
}

TEST(GgufExperts, MakeTheModelOfTheirTensors) {
  ModelConfig config = tiny_mixture();
  config.moe->dense_layers.clear();  // the format has none
  const TinyWeights source(config, 5);
  const TestFolder directory;
  directory.write("m.gguf", gguf_of(config, source));

  Result<MappedFile> mapped = MappedFile::open(directory.path("m.gguf"));
  const Result<GgufFile> file = GgufFile::parse(mapped->bytes());
  ASSERT_TRUE(file) << file.error().message;
  const Result<json::object> stated = gguf_config(*file);
  ASSERT_TRUE(stated) << stated.error().message;
  const Result<ModelConfig> found = parse_model_config(*stated);
  ASSERT_TRUE(found) << found.error().message;
  const auto weights = gguf_weights(std::move(*mapped), *file);
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_EQ(logits_of(*found, **weights), logits_of(config, source));
}

}  // namespace
}  // namespace millrace
