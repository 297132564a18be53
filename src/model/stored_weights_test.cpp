#include "model/stored_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/test_folder.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/test_files.h"
#include "model/cpu_model.h"
#include "model/model_test_data.h"

namespace millrace {
namespace {

using testing::HasSubstr;

ModelConfig stored_as(ModelConfig config, QuantizedFormat format) {
  config.stored_quantization = format;
  return config;
}
ModelConfig stored_config(ModelFamily family, QuantizedFormat format) {
  return stored_as(tiny_config(family), format);
}

ModelConfig original(ModelConfig config) {
  config.stored_quantization.reset();
  return config;
}

// Rounds a tiny model and writes it; `edit` may change what is written.
std::string write_tiny(
    const TestFolder& directory,
    const ModelConfig& config,
    const std::function<void(std::vector<TensorToWrite>&)>& edit = {}
) {
  ModelConfig whole = original(config);
  whole.tie_word_embeddings = false;  // so that there is a head to be stored
  const TinyWeights source(whole, 5);
  ThreadPool pool(2);
  const WeightFormat format = {DType::kBFloat16, config.stored_quantization};
  const Result<ModelWeights> weights = load_weights(whole, source, format, pool);
  CHECK(weights.ok(), weights.error().message);
  std::vector<TensorToWrite> tensors = stored_tensors(config, *weights, source, DType::kBFloat16);
  if (edit) edit(tensors);
  const std::string path = directory.path("model.safetensors");
  CHECK(write_safetensors(path, tensors).ok(), "written");
  return path;
}

Result<std::unique_ptr<CpuModel>> load_model(
    const ModelConfig& config, const WeightSource& source, QuantizedFormat format, ThreadPool& pool
) {
  const CpuModelOptions options{
      .dtype = DType::kBFloat16,
      .quantization = format,
      .num_blocks = 8,
      .max_model_len = 64,
      .max_num_batched_tokens = 64,
      .max_num_logits = 64,
  };
  return CpuModel::load(config, source, options, pool);
}

std::vector<float> logits_of(CpuModel& model) {
  std::vector<TestSequence> sequences =
      make_sequences(model, std::vector<std::vector<TokenId>>{{3, 1, 4, 1, 5, 9, 2, 6}}, 1);
  const TestChunk chunk{&sequences[0], 8};
  const std::span<const float> logits =
      model.forward(make_batch(std::span(&chunk, 1), model.block_size()));
  return {logits.begin(), logits.end()};
}

void expect_same_bits_as_rounding_again(const ModelConfig& model) {
  for (const QuantizedFormat format : {QuantizedFormat::kInt8, QuantizedFormat::kInt4}) {
    const TestFolder directory;
    const ModelConfig config = stored_as(model, format);
    const auto stored = open_safetensors_file(write_tiny(directory, config));
    ASSERT_TRUE(stored) << stored.error().message;
    ThreadPool pool(2);
    auto found = load_model(config, **stored, format, pool);
    ASSERT_TRUE(found) << found.error().message;

    ModelConfig whole = original(config);
    whole.tie_word_embeddings = false;
    const TinyWeights source(whole, 5);
    auto expected = load_model(whole, source, format, pool);
    ASSERT_TRUE(expected) << expected.error().message;
    EXPECT_EQ(logits_of(**found), logits_of(**expected))
        << name_of(model.family) << name_of(format);
  }
}

TEST(StoredWeights, GiveTheSameBitsAsRoundingAgain) {
  for (const ModelFamily family : kDenseFamilies) {
    expect_same_bits_as_rounding_again(tiny_config(family));
  }
}

TEST(StoredWeights, OfExpertsGiveTheSameBitsAsRoundingAgain) {
  expect_same_bits_as_rounding_again(tiny_mixture());
  ModelConfig alone = tiny_mixture();  // without a shared expert
  alone.family = ModelFamily::kQwen3Moe;
  alone.moe->shared_expert_intermediate_size = 0;
  alone.attention_bias = false;
  alone.qk_norm = true;
  expect_same_bits_as_rounding_again(alone);
}

std::string error_of(
    const std::function<void(std::vector<TensorToWrite>&)>& edit,
    const ModelConfig& stated = tiny_config(ModelFamily::kLlama)
) {
  const TestFolder directory;
  const ModelConfig config = stored_as(stated, QuantizedFormat::kInt8);
  const auto source = open_safetensors_file(write_tiny(directory, config, edit));
  CHECK(source.ok(), source.error().message);
  ThreadPool pool(1);
  const auto model = load_model(config, **source, QuantizedFormat::kInt8, pool);
  return model ? "no error" : model.error().message;
}

TensorToWrite& named(std::vector<TensorToWrite>& tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &TensorToWrite::name);
  CHECK(found != tensors.end(), "a tensor of that name");
  return *found;
}

TEST(StoredWeights, NameTheTensorThatDoesNotFit) {
  EXPECT_EQ(error_of({}), "no error");
  EXPECT_THAT(
      error_of([](auto& tensors) { tensors.pop_back(); }), HasSubstr("'lm_head.panels' is missing")
  );
  EXPECT_THAT(
      error_of([](auto& tensors) { named(tensors, "lm_head.panels").name = "lm_head.weight"; }),
      HasSubstr("'lm_head.weight' is none of this model's")
  );
  const char* const down = "model.layers.1.mlp.down_proj.panels";
  EXPECT_THAT(
      error_of([&](auto& tensors) {
        std::swap(named(tensors, down).shape[0], named(tensors, down).shape[1]);
      }),
      HasSubstr("'model.layers.1.mlp.down_proj.panels' has the shape [")
  );
  EXPECT_THAT(
      error_of([&](auto& tensors) { named(tensors, down).dtype = "I8"; }),
      HasSubstr("'model.layers.1.mlp.down_proj.panels' must be of dtype U8")
  );
  EXPECT_THAT(
      error_of([](auto& tensors) { named(tensors, "model.norm.weight").dtype = "I32"; }),
      HasSubstr("'model.norm.weight' has dtype I32")
  );
}

TEST(StoredWeights, AreNotRoundedToAnotherFormat) {
  const TestFolder directory;
  const ModelConfig config = stored_config(ModelFamily::kLlama, QuantizedFormat::kInt8);
  const auto source = open_safetensors_file(write_tiny(directory, config));
  ThreadPool pool(1);
  const auto model = load_model(config, **source, QuantizedFormat::kInt4, pool);
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, HasSubstr("the weights are stored as int8"));
}

TEST(StoredWeights, NameTheExpertsThatDoNotFit) {
  const ModelConfig mixture = tiny_mixture();
  EXPECT_EQ(error_of({}, mixture), "no error");
  const auto without = [&](const std::string& name) {
    return error_of(
        [&](auto& tensors) {
          std::erase_if(tensors, [&](const TensorToWrite& tensor) { return tensor.name == name; });
        },
        mixture
    );
  };
  for (const char* const name :
       {"gate.weight",
        "shared_expert_gate.weight",
        "experts.gate_up_proj.panels",
        "experts.down_proj.panels",
        "shared_expert.down_proj.panels"}) {
    const std::string tensor = std::string("model.layers.2.mlp.") + name;
    EXPECT_EQ(without(tensor), "tensor '" + tensor + "' is missing");
  }
  const char* const router = "model.layers.0.mlp.gate.weight";
  EXPECT_THAT(
      error_of([&](auto& tensors) { std::ranges::reverse(named(tensors, router).shape); }, mixture),
      HasSubstr("'model.layers.0.mlp.gate.weight' has the shape [52, 5], expected [5, 52]")
  );
}

// Any bytes are some weights: what cannot be checked must not crash.
TEST(StoredWeights, OfAnyBytesRun) {
  const TestFolder directory;
  const ModelConfig config = stored_config(ModelFamily::kQwen2, QuantizedFormat::kInt4);
  const auto source = open_safetensors_file(write_tiny(directory, config, [](auto& tensors) {
    for (TensorToWrite& tensor : tensors) {
      if (tensor.dtype != "U8") continue;
      tensor.write = [size = tensor.num_bytes](const TensorToWrite::Put& put) {
        std::vector<std::byte> bytes(size);
        Rng rng(9);
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.below(256));
        put(bytes);
      };
    }
  }));
  ASSERT_TRUE(source) << source.error().message;
  ThreadPool pool(2);
  auto model = load_model(config, **source, QuantizedFormat::kInt4, pool);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(logits_of(**model).size(), 8U * 103U);
}

}  // namespace
}  // namespace millrace
