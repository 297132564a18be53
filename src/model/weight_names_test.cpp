#include "model/weight_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/dummy.h"

namespace millrace {
namespace {

using testing::HasSubstr;

ModelConfig public_config(const std::string& name) {
  const Result<Checkpoint> checkpoint =
      open_checkpoint(MILLRACE_SOURCE_DIR "/configs/" + name, {.with_weights = false});
  EXPECT_TRUE(checkpoint) << checkpoint.error().message;
  const Result<ModelConfig> config = parse_model_config(checkpoint->config);
  EXPECT_TRUE(config) << name << ": " << config.error().message;
  return *config;
}

struct PublicModel {
  std::string name;
  int64_t num_parameters;
};

// The parameters that transformers 5.23 counts in models built from these files, which the model
// cards round to 0.49, 7.62, 72.7, 57.4, 0.6, 8.2, 32.8, 30.5 and 8.03 billion.
TEST(PublicConfigs, HaveTheParametersOfTheirModelCards) {
  const PublicModel models[] = {
      {"Qwen2-0.5B", 494'032'768},
      {"Qwen2-7B", 7'615'616'512},
      {"Qwen2-72B", 72'706'203'648},
      {"Qwen2-57B-A14B", 57'408'658'944},
      {"Qwen3-0.6B", 596'049'920},
      {"Qwen3-8B", 8'190'735'360},
      {"Qwen3-32B", 32'762'123'264},
      {"Qwen3-30B-A3B", 30'532'122'624},
      {"Llama-3.1-8B", 8'030'261'248},
  };
  for (const PublicModel& model : models) {
    EXPECT_EQ(num_parameters(public_config(model.name)), model.num_parameters) << model.name;
  }
}

TEST(PublicConfigs, AreReadAsTheyAreMeant) {
  const ModelConfig llama = public_config("Llama-3.1-8B");
  ASSERT_TRUE(llama.rope_scaling);
  EXPECT_EQ(llama.rope_scaling->factor, 8.0);
  EXPECT_EQ(llama.rope_theta, 500000.0);
  EXPECT_EQ(llama.max_position_embeddings, 131072);
  EXPECT_EQ(llama.dtype, DType::kBFloat16);
  EXPECT_EQ(llama.eos_token_ids, std::vector<TokenId>{128001});
  const ModelConfig qwen2 = public_config("Qwen2-0.5B");
  EXPECT_TRUE(qwen2.tie_word_embeddings);
  EXPECT_TRUE(qwen2.attention_bias);
  EXPECT_EQ(qwen2.head_dim, 64);
  const ModelConfig qwen3 = public_config("Qwen3-30B-A3B");
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_TRUE(qwen3.moe->normalize_topk);
  EXPECT_EQ(qwen3.moe->num_experts, 128);
  EXPECT_EQ(qwen3.eos_token_ids, std::vector<TokenId>{151645});
}

ModelConfig small_config(bool tied) {
  ModelConfig config;
  config.family = ModelFamily::kQwen2Moe;
  config.hidden_size = 8;
  config.intermediate_size = 12;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 4;
  config.vocab_size = 20;
  config.attention_bias = true;
  config.tie_word_embeddings = tied;
  config.moe = MoeConfig{
      .num_experts = 2,
      .num_experts_per_token = 1,
      .expert_intermediate_size = 6,
      .shared_expert_intermediate_size = 10,
      .dense_layers = {0},
  };
  return config;
}

TEST(ExpectedTensors, FollowTheForwardPass) {
  std::vector<std::string> shown;
  for (const TensorInfo& info : expected_tensors(small_config(false))) {
    shown.push_back(info.name + " " + format_shape(info.shape));
  }
  const std::vector<std::string> layer1 = {
      "model.layers.1.input_layernorm.weight [8]",
      "model.layers.1.self_attn.q_proj.weight [16, 8]",
      "model.layers.1.self_attn.q_proj.bias [16]",
      "model.layers.1.self_attn.k_proj.weight [8, 8]",
      "model.layers.1.self_attn.k_proj.bias [8]",
      "model.layers.1.self_attn.v_proj.weight [8, 8]",
      "model.layers.1.self_attn.v_proj.bias [8]",
      "model.layers.1.self_attn.o_proj.weight [8, 16]",
      "model.layers.1.post_attention_layernorm.weight [8]",
      "model.layers.1.mlp.gate.weight [2, 8]",
      "model.layers.1.mlp.experts.0.gate_proj.weight [6, 8]",
      "model.layers.1.mlp.experts.0.up_proj.weight [6, 8]",
      "model.layers.1.mlp.experts.0.down_proj.weight [8, 6]",
      "model.layers.1.mlp.experts.1.gate_proj.weight [6, 8]",
      "model.layers.1.mlp.experts.1.up_proj.weight [6, 8]",
      "model.layers.1.mlp.experts.1.down_proj.weight [8, 6]",
      "model.layers.1.mlp.shared_expert.gate_proj.weight [10, 8]",
      "model.layers.1.mlp.shared_expert.up_proj.weight [10, 8]",
      "model.layers.1.mlp.shared_expert.down_proj.weight [8, 10]",
      "model.layers.1.mlp.shared_expert_gate.weight [1, 8]",
      "model.norm.weight [8]",
      "lm_head.weight [20, 8]",
  };
  ASSERT_GE(shown.size(), layer1.size());
  const std::vector<std::string> tail(
      shown.end() - static_cast<int64_t>(layer1.size()), shown.end()
  );
  EXPECT_EQ(tail, layer1);
  EXPECT_EQ(shown.front(), "model.embed_tokens.weight [20, 8]");
  EXPECT_THAT(shown, testing::Contains("model.layers.0.mlp.gate_proj.weight [12, 8]"));
}

// A source of the expected tensors after `change` has had its way with them.
template <class Change>
std::string error_after(bool tied, Change change) {
  const ModelConfig config = small_config(tied);
  std::vector<TensorInfo> infos = expected_tensors(config);
  change(infos);
  const Result<std::unique_ptr<WeightSource>> source = make_dummy_weights(infos, 1);
  const Result<void> good = check_tensors(config, **source);
  return good ? "no error" : good.error().message;
}

TensorInfo named(std::string name, std::vector<int64_t> shape) {
  TensorInfo info;
  info.name = std::move(name);
  info.shape = std::move(shape);
  return info;
}

TEST(CheckTensors, AcceptsWhatIsExpected) {
  EXPECT_EQ(error_after(false, [](auto&) {}), "no error");
  EXPECT_EQ(error_after(true, [](auto&) {}), "no error");
}

TEST(CheckTensors, NamesWhatIsMissingOrOfAnotherShape) {
  EXPECT_EQ(
      error_after(false, [](auto& infos) { infos.pop_back(); }),
      "tensor 'lm_head.weight' is missing: expected shape [20, 8]"
  );
  EXPECT_EQ(
      error_after(
          false,
          [](auto& infos) {
            infos[2].shape = {8, 16};
          }
      ),
      "tensor 'model.layers.0.self_attn.q_proj.weight' has shape [8, 16]: expected [16, 8]"
  );
}

TEST(CheckTensors, RefusesWhatWouldBeLeftUnused) {
  EXPECT_THAT(
      error_after(
          false,
          [](auto& infos) { infos.push_back(named("model.layers.0.self_attn.o_proj.bias", {8})); }
      ),
      HasSubstr("'model.layers.0.self_attn.o_proj.bias' [8] belongs to no part of a qwen2_moe model"
      )
  );
  EXPECT_EQ(
      error_after(
          true,
          [](auto& infos) {
            infos.push_back(named("model.layers.0.self_attn.rotary_emb.inv_freq", {2}));
          }
      ),
      "no error"
  );
}

// Tied weights with a head beside them: the embedding's own values, or others.
class SourceWithHead : public WeightSource {
 public:
  SourceWithHead(const ModelConfig& config, bool is_same) : is_same_(is_same) {
    std::vector<TensorInfo> infos = expected_tensors(config);
    infos.push_back(named("lm_head.weight", {20, 8}));
    source_ = *make_dummy_weights(infos, 1);
  }
  std::span<const TensorInfo> tensors() const override { return source_->tensors(); }
  const TensorInfo* find(std::string_view name) const override { return source_->find(name); }
  void read_rows(const TensorInfo& tensor, int64_t begin, int64_t count, std::span<float> out)
      const override {
    const bool is_head = is_same_ && tensor.name == "lm_head.weight";
    source_->read_rows(is_head ? *find("model.embed_tokens.weight") : tensor, begin, count, out);
  }

 private:
  bool is_same_;
  std::unique_ptr<WeightSource> source_;
};

TEST(CheckTensors, TakesAHeadBesideTiedEmbeddingsOnlyIfItIsTheSame) {
  const ModelConfig config = small_config(true);
  EXPECT_TRUE(check_tensors(config, SourceWithHead(config, true)));
  const Result<void> differs = check_tensors(config, SourceWithHead(config, false));
  ASSERT_FALSE(differs);
  EXPECT_EQ(differs.error().where, "lm_head.weight");
}

// A model without biases of its own, with one beside a matrix.
class SourceWithBias : public WeightSource {
 public:
  static constexpr const char* kName = "model.layers.0.mlp.down_proj.bias";

  SourceWithBias(const ModelConfig& config, float value)
      : tensors_(expected_tensors(config)), value_(value) {
    tensors_.push_back({.name = kName, .shape = {config.hidden_size}});
  }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override {
    const auto found = std::ranges::find(tensors_, name, &TensorInfo::name);
    return found == tensors_.end() ? nullptr : &*found;
  }
  void read_rows(const TensorInfo&, int64_t, int64_t, std::span<float> out) const override {
    std::ranges::fill(out, 0.0F);
    out.back() = value_;
  }

 private:
  std::vector<TensorInfo> tensors_;
  float value_;
};

TEST(CheckTensors, TakesABiasTooManyOnlyIfItAddsNothing) {
  const ModelConfig config = small_config(false);
  EXPECT_TRUE(check_tensors(config, SourceWithBias(config, 0)));
  const Result<void> adds = check_tensors(config, SourceWithBias(config, 0.5F));
  ASSERT_FALSE(adds);
  EXPECT_EQ(adds.error().where, SourceWithBias::kName);
}

class OneUnreadable : public WeightSource {
 public:
  explicit OneUnreadable(const ModelConfig& config) : tensors_(expected_tensors(config)) {
    tensors_[2].storage = StorageType::kOther;
    tensors_[2].storage_name = "IQ2_S";
  }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override {
    for (const TensorInfo& tensor : tensors_) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }
  void read_rows(const TensorInfo&, int64_t, int64_t, std::span<float>) const override {}

 private:
  std::vector<TensorInfo> tensors_;
};

TEST(CheckTensors, RefusesATypeThatCannotBeRead) {
  const ModelConfig config = small_config(false);
  const Result<void> good = check_tensors(config, OneUnreadable(config));
  ASSERT_FALSE(good);
  EXPECT_THAT(
      good.error().message,
      HasSubstr("tensor 'model.layers.0.self_attn.q_proj.weight' has dtype IQ2_S")
  );
}

TEST(CheckTensors, AcceptsTheTinyModelOfTheGgufPackage) {
  const Result<Checkpoint> checkpoint =
      open_checkpoint(MILLRACE_SOURCE_DIR "/tests/golden/checkpoint/tiny-llama.gguf");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const Result<ModelConfig> config = parse_model_config(checkpoint->config);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config->tie_word_embeddings);
  EXPECT_EQ(config->eos_token_ids, std::vector<TokenId>{2});
  const Result<void> good = check_tensors(*config, *checkpoint->weights);
  EXPECT_TRUE(good) << good.error().message;
}

}  // namespace
}  // namespace millrace
