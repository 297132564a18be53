#include "checkpoint/gguf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <numbers>
#include <set>

#include "base/test_folder.h"
#include "checkpoint/dequantize.h"
#include "checkpoint/test_files.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using namespace testing_files;

const std::string kGolden = MILLRACE_SOURCE_DIR "/tests/golden/checkpoint/";

// Without what has no default.
GgufWriter sizes_of_small_model(const std::string& architecture) {
  GgufWriter writer;
  writer.string("general.architecture", architecture)
      .uint32(architecture + ".embedding_length", 8)
      .uint32(architecture + ".feed_forward_length", 6)
      .uint32(architecture + ".block_count", 1)
      .uint32(architecture + ".attention.head_count", 2)
      .uint32(architecture + ".attention.head_count_kv", 1)
      .float32(architecture + ".rope.freq_base", 500000.0F)
      .f32("token_embd.weight", {8, 5});
  return writer;
}

GgufWriter small_model(const std::string& architecture) {
  return sizes_of_small_model(architecture)
      .uint32(architecture + ".context_length", 64)
      .float32(architecture + ".attention.layer_norm_rms_epsilon", 1e-5F);
}

Result<json::object> config_of(const GgufWriter& writer) {
  const std::string bytes = writer.file();
  const Result<GgufFile> file = GgufFile::parse(as_bytes(bytes));
  if (!file) return file.error();
  return gguf_config(*file);
}

std::string error_of(const GgufWriter& writer) {
  const Result<json::object> config = config_of(writer);
  return config ? "no error" : config.error().message;
}

TEST(GgufConfig, SpeaksTheWordsOfConfigJson) {
  const Result<json::object> config = config_of(small_model("llama")
                                                    .uint32("tokenizer.ggml.bos_token_id", 1)
                                                    .uint32("tokenizer.ggml.eos_token_id", 2)
                                                    .uint32("tokenizer.ggml.eot_token_id", 3));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->at("architectures"), json::array({"LlamaForCausalLM"}));
  EXPECT_EQ(config->at("hidden_size"), 8);
  EXPECT_EQ(config->at("intermediate_size"), 6);
  EXPECT_EQ(config->at("num_hidden_layers"), 1);
  EXPECT_EQ(config->at("num_attention_heads"), 2);
  EXPECT_EQ(config->at("num_key_value_heads"), 1);
  EXPECT_EQ(config->at("head_dim"), 4);
  EXPECT_EQ(config->at("vocab_size"), 5);
  EXPECT_EQ(config->at("max_position_embeddings"), 64);
  EXPECT_EQ(config->at("rms_norm_eps"), 1e-5);
  EXPECT_EQ(config->at("rope_theta"), 500000.0);
  EXPECT_EQ(config->at("tie_word_embeddings"), true);
  EXPECT_EQ(config->at("attention_bias"), false);
  EXPECT_EQ(config->at("torch_dtype"), "float32");
  EXPECT_EQ(config->at("bos_token_id"), 1);
  EXPECT_EQ(config->at("eos_token_id"), json::array({2, 3}));
  EXPECT_FALSE(config->contains("rope_scaling"));
}

// They had defaults of config.json, which are not those of any file.
TEST(GgufConfig, NamesWhatAFileHasToState) {
  const std::string context = "llama.context_length";
  const std::string epsilon = "llama.attention.layer_norm_rms_epsilon";
  EXPECT_EQ(
      error_of(sizes_of_small_model("llama").float32(epsilon, 1e-5F)),
      "GGUF: '" + context + "' is missing"
  );
  EXPECT_EQ(
      error_of(sizes_of_small_model("llama").uint32(context, 64)),
      "GGUF: '" + epsilon + "' is missing"
  );
}

// A chat file that names <|endoftext|> as its end, or none at all, ran on past the end of a turn.
TEST(GgufConfig, EndsAtKeysAndAtControlTokensOfKnownTexts) {
  constexpr uint32_t kInt32 = 5;
  const auto ends_of = [](const GgufWriter& writer) {
    const Result<json::object> config = config_of(writer);
    return config ? config->at("eos_token_id") : json::value(config.error().message);
  };
  const auto chat = [] {
    return small_model("qwen2")
        .strings("tokenizer.ggml.tokens", {"<|end|>", "a", "<|endoftext|>", "<s>", "<|im_end|>"})
        .numbers<int32_t>("tokenizer.ggml.token_type", kInt32, {4, 1, 3, 3, 3});
  };
  EXPECT_EQ(ends_of(chat()), json::array({2, 4}));
  EXPECT_EQ(ends_of(chat().uint32("tokenizer.ggml.eos_token_id", 4)), json::array({4, 2}));
  EXPECT_EQ(
      ends_of(chat()
                  .uint32("tokenizer.ggml.eos_token_id", 2)
                  .uint32("tokenizer.ggml.eot_token_id", 4)
                  .uint32("tokenizer.ggml.eom_token_id", 3)),
      json::array({2, 4, 3})
  );
  EXPECT_EQ(
      ends_of(small_model("qwen2").strings("tokenizer.ggml.tokens", {"<|im_end|>"})), json::array()
  );
}

TEST(GgufConfig, TakesBiasesAndAnOwnHeadFromTheTensors) {
  const Result<json::object> config =
      config_of(small_model("qwen2").f32("output.weight", {8, 5}).f32("blk.0.attn_q.bias", {8}));
  ASSERT_TRUE(config);
  EXPECT_EQ(config->at("attention_bias"), true);
  EXPECT_EQ(config->at("tie_word_embeddings"), false);
}

TEST(GgufConfig, KeyLengthIsTheHeadsSize) {
  const Result<json::object> config =
      config_of(small_model("qwen3").uint32("qwen3.attention.key_length", 16));
  ASSERT_TRUE(config);
  EXPECT_EQ(config->at("head_dim"), 16);
}

GgufWriter small_mixture(const std::string& architecture) {
  GgufWriter writer = small_model(architecture);
  writer.uint32(architecture + ".expert_count", 4)
      .uint32(architecture + ".expert_used_count", 2)
      .uint32(architecture + ".expert_feed_forward_length", 3);
  return writer;
}

TEST(GgufConfig, NamesTheSizesOfExperts) {
  Result<json::object> config =
      config_of(small_mixture("qwen2moe").uint32("qwen2moe.expert_shared_feed_forward_length", 5));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->at("model_type"), "qwen2_moe");
  EXPECT_EQ(config->at("architectures"), json::array({"Qwen2MoeForCausalLM"}));
  EXPECT_EQ(config->at("num_experts"), 4);
  EXPECT_EQ(config->at("num_experts_per_tok"), 2);
  EXPECT_EQ(config->at("moe_intermediate_size"), 3);
  EXPECT_EQ(config->at("shared_expert_intermediate_size"), 5);
  EXPECT_EQ(config->at("norm_topk_prob"), false);

  config = config_of(small_mixture("qwen3moe"));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->at("architectures"), json::array({"Qwen3MoeForCausalLM"}));
  EXPECT_EQ(config->at("norm_topk_prob"), true);
  config = config_of(small_mixture("qwen3moe").boolean("qwen3moe.expert_weights_norm", 0));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->at("norm_topk_prob"), false);
}

TEST(GgufConfig, RefusesWhatWouldChangeTheResult) {
  EXPECT_THAT(
      error_of(small_mixture("qwen3moe").float32("qwen3moe.expert_weights_scale", 2.0F)),
      HasSubstr("'qwen3moe.expert_weights_scale' is not supported")
  );
  EXPECT_THAT(
      error_of(small_mixture("qwen3moe").uint32("qwen3moe.expert_gating_func", 2)),
      HasSubstr("'qwen3moe.expert_gating_func' is 2, expected 1 (softmax)")
  );
  EXPECT_EQ(
      error_of(small_mixture("qwen3moe").uint32("qwen3moe.expert_gating_func", 1)), "no error"
  );
  EXPECT_THAT(error_of(small_model("gemma3")), HasSubstr("architecture 'gemma3' is not supported"));
  EXPECT_THAT(error_of(GgufWriter()), HasSubstr("general.architecture is missing"));
  EXPECT_THAT(
      error_of(small_model("llama").uint32("llama.expert_count", 8)),
      HasSubstr("'llama.expert_count' is not supported")
  );
  EXPECT_EQ(error_of(small_model("llama").uint32("llama.expert_count", 0)), "no error");
  EXPECT_THAT(
      error_of(small_model("llama").float32("llama.logit_scale", 2.0F)),
      HasSubstr("'llama.logit_scale'")
  );
  for (const std::string key :
       {"llama.attention.clamp_kqv",
        "llama.attention.max_alibi_bias",
        "llama.attn_logit_softcapping",
        "llama.final_logit_softcapping"}) {
    EXPECT_EQ(
        error_of(small_model("llama").float32(key, 8.0F)), "GGUF: '" + key + "' is not supported"
    );
    EXPECT_EQ(error_of(small_model("llama").float32(key, 0.0F)), "no error");
  }
  const std::string parallel = "llama.use_parallel_residual";
  EXPECT_THAT(error_of(small_model("llama").boolean(parallel, 1)), HasSubstr(parallel));
  EXPECT_EQ(error_of(small_model("llama").boolean(parallel, 0)), "no error");
  const std::string causal = "llama.attention.causal";
  EXPECT_THAT(error_of(small_model("llama").boolean(causal, 0)), HasSubstr("causal' is false"));
  EXPECT_EQ(error_of(small_model("llama").boolean(causal, 1)), "no error");
  const std::string magnitude = "llama.rope.scaling.attn_factor";
  EXPECT_THAT(error_of(small_model("llama").float32(magnitude, 2.0F)), HasSubstr(magnitude));
  EXPECT_EQ(error_of(small_model("llama").float32(magnitude, 1.0F)), "no error");
  EXPECT_THAT(
      error_of(small_model("llama").string("llama.vocab_size", "5")),
      HasSubstr("must be an integer")
  );
}

TEST(GgufConfig, PassesOnRopeTypesAndPartialRotation) {
  Result<json::object> config =
      config_of(small_model("llama").string("llama.rope.scaling.type", "yarn"));
  ASSERT_TRUE(config);
  EXPECT_EQ(config->at("rope_scaling").at("rope_type"), "yarn");
  config = config_of(small_model("llama").uint32("llama.rope.dimension_count", 2));
  ASSERT_TRUE(config);
  EXPECT_EQ(config->at("partial_rotary_factor"), 0.5);
}

// llama.cpp scales by a factor without a type; it was passed over, and so was a type beside
// factors.
TEST(GgufConfig, TakesAFactorWithoutATypeAsLinear) {
  const auto rope_type = [](const GgufWriter& writer) {
    const Result<json::object> config = config_of(writer);
    if (!config) return config.error().message;
    const json::value* rope = config->if_contains("rope_scaling");
    return rope == nullptr ? "none" : std::string(rope->at("rope_type").as_string());
  };
  const std::string factor = "llama.rope.scaling.factor";
  const std::string type = "llama.rope.scaling.type";
  EXPECT_EQ(rope_type(small_model("llama").float32(factor, 4.0F)), "linear");
  EXPECT_EQ(rope_type(small_model("llama").float32(factor, 1.0F)), "none");
  EXPECT_EQ(rope_type(small_model("llama").float32("llama.rope.scale_linear", 4.0F)), "linear");
  EXPECT_EQ(rope_type(small_model("llama").float32(factor, 4.0F).string(type, "none")), "none");
  EXPECT_EQ(
      rope_type(small_model("llama").string(type, "linear").f32("rope_freqs.weight", {2})), "linear"
  );
}

// The first part of a file is a model's, with tensors that are missing.
TEST(GgufConfig, SaysThatAFileIsAPartOfOne) {
  const std::string expected = "this is part 1 of 3: join the parts (llama-gguf-split --merge)";
  EXPECT_THAT(
      error_of(small_model("llama").uint32("split.no", 0).uint32("split.count", 3)),
      HasSubstr(expected)
  );
  EXPECT_THAT(
      error_of(GgufWriter().uint32("split.no", 1).uint32("split.count", 3)),
      HasSubstr("this is part 2 of 3")
  );
  EXPECT_EQ(error_of(small_model("llama").uint32("split.count", 1)), "no error");
}

// The divisors that a converter writes for Llama 3.1 and later.
std::string llama3_divisors(double factor, size_t head_dim, double theta) {
  std::string data;
  for (size_t i = 0; i < head_dim / 2; ++i) {
    const double frequency =
        std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    const double wavelength = 2.0 * std::numbers::pi / frequency;
    double divisor = 1.0;
    if (wavelength > 8192.0) {
      divisor = factor;
    } else if (wavelength >= 2048.0) {
      const double smooth = (8192.0 / wavelength - 1.0) / 3.0;
      divisor = 1.0 / ((1.0 - smooth) / factor + smooth);
    }
    append(data, static_cast<float>(divisor));
  }
  return data;
}

TEST(GgufConfig, RecognisesTheRotaryFactorsOfLlama31) {
  GgufWriter writer = small_model("llama");
  writer.uint32("llama.attention.key_length", 128)
      .tensor("rope_freqs.weight", {64}, 0, llama3_divisors(32.0, 128, 500000.0));
  const Result<json::object> config = config_of(writer);
  ASSERT_TRUE(config) << config.error().message;
  const json::object& rope = config->at("rope_scaling").as_object();
  EXPECT_EQ(rope.at("rope_type"), "llama3");
  EXPECT_EQ(rope.at("factor"), 32.0);
  EXPECT_EQ(rope.at("original_max_position_embeddings"), 8192);
}

TEST(GgufConfig, RefusesOtherRotaryFactors) {
  std::string divisors = llama3_divisors(8.0, 128, 500000.0);
  const float wrong = 1.5F;
  std::memcpy(divisors.data() + 40, &wrong, 4);
  GgufWriter writer = small_model("llama");
  writer.uint32("llama.attention.key_length", 128).tensor("rope_freqs.weight", {64}, 0, divisors);
  EXPECT_THAT(error_of(writer), HasSubstr("'rope_freqs.weight' are not those of Llama 3.1"));
}

Result<std::optional<GgufVocabulary>> vocabulary_of(const GgufWriter& writer) {
  const std::string bytes = writer.file();
  const Result<GgufFile> file = GgufFile::parse(as_bytes(bytes));
  if (!file) return file.error();
  return gguf_vocabulary(*file);
}

TEST(GgufVocabulary, IsNoneWithoutTokens) {
  const Result<std::optional<GgufVocabulary>> vocabulary = vocabulary_of(GgufWriter());
  ASSERT_TRUE(vocabulary);
  EXPECT_FALSE(vocabulary->has_value());
}

TEST(GgufVocabulary, RefusesIdsAndCountsThatDoNotFit) {
  const auto base = [] { return GgufWriter().strings("tokenizer.ggml.tokens", {"a", "b"}); };
  EXPECT_TRUE(vocabulary_of(base().uint32("tokenizer.ggml.eos_token_id", 1)));
  EXPECT_THAT(
      vocabulary_of(base().uint32("tokenizer.ggml.eos_token_id", 2)).error().message,
      HasSubstr("'tokenizer.ggml.eos_token_id' is 2; there are 2 tokens")
  );
  EXPECT_THAT(
      vocabulary_of(base().numbers<float>("tokenizer.ggml.scores", 6, {1.0F})).error().message,
      HasSubstr("1 scores for 2 tokens")
  );
  EXPECT_THAT(
      vocabulary_of(base().numbers<int32_t>("tokenizer.ggml.token_type", 5, {1})).error().message,
      HasSubstr("1 types for 2 tokens")
  );
  EXPECT_FALSE(vocabulary_of(GgufWriter().strings("tokenizer.ggml.tokens", {})));
  EXPECT_FALSE(vocabulary_of(GgufWriter().string("tokenizer.ggml.tokens", "a")));
}

struct OpenModel {
  json::object config;
  std::optional<GgufVocabulary> vocabulary;
  std::optional<std::string> chat_template;
  std::unique_ptr<WeightSource> weights;
};

OpenModel open_model(const std::string& path) {
  OpenModel model;
  Result<MappedFile> mapped = MappedFile::open(path);
  const Result<GgufFile> file = GgufFile::parse(mapped->bytes());
  EXPECT_TRUE(file) << file.error().message;
  model.config = *gguf_config(*file);
  model.vocabulary = *gguf_vocabulary(*file);
  model.chat_template = *gguf_chat_template(*file);
  model.weights = std::move(*gguf_weights(std::move(*mapped), *file));
  return model;
}

std::vector<float> read_all(const WeightSource& source, const TensorInfo& info) {
  std::vector<float> values(static_cast<size_t>(info.num_rows() * info.row_length()));
  source.read_rows(info, 0, info.num_rows(), values);
  return values;
}

// The tensors of NAME.gguf are those that the gguf package reads (NAME.json).
void expect_golden_weights(const WeightSource& weights, const std::string& name) {
  const Result<json::value> golden = read_json_file(kGolden + name + ".json");
  ASSERT_TRUE(golden);
  const json::object& tensors = golden->at("tensors").as_object();
  EXPECT_EQ(weights.tensors().size(), tensors.size());
  for (const auto& [tensor, expected] : tensors) {
    const TensorInfo* info = weights.find(tensor);
    ASSERT_NE(info, nullptr) << tensor;
    EXPECT_EQ(info->shape, json::value_to<std::vector<int64_t>>(expected.at("shape")));
    EXPECT_EQ(expected.at("fnv1a").as_string(), fnv1a(read_all(weights, *info))) << tensor;
  }
}

// Random bytes in every block format, and the experts of a layer, which become one matrix each.
TEST(GgufWeights, OfEveryBlockFormatAndOfExpertsAreBitForBitThoseOfTheGgufPackage) {
  Result<MappedFile> mapped = MappedFile::open(kGolden + "blocks.gguf");
  const Result<GgufFile> file = GgufFile::parse(mapped->bytes());
  ASSERT_TRUE(file) << file.error().message;
  const auto weights = gguf_weights(std::move(*mapped), *file);
  ASSERT_TRUE(weights) << weights.error().message;
  expect_golden_weights(**weights, "blocks");
}

TEST(GgufWeights, AreBitForBitThoseOfTheGgufPackage) {
  const OpenModel model = open_model(kGolden + "tiny-llama.gguf");
  expect_golden_weights(*model.weights, "tiny-llama");
  EXPECT_EQ(model.config.at("rms_norm_eps"), 1e-5);
  EXPECT_EQ(model.config.at("head_dim"), 16);
  EXPECT_EQ(model.vocabulary->tokens.size(), 40U);
  EXPECT_EQ(model.vocabulary->tokens[7], "t7");
  EXPECT_EQ(model.vocabulary->token_types[0], 3);
  EXPECT_EQ(model.vocabulary->merges, (std::vector<std::string>{"t 1", "t 2"}));
  EXPECT_EQ(model.vocabulary->pre, "smollm");
  EXPECT_EQ(model.vocabulary->eos, 2);
  EXPECT_EQ(model.vocabulary->padding, std::nullopt);
  EXPECT_EQ(model.vocabulary->add_bos, false);
  EXPECT_EQ(model.chat_template, "{{ messages[0]['content'] }}");
}

// In two reads, as a loader that takes panel after panel.
std::vector<float> values_of_codes(
    const WeightSource& weights, const TensorInfo& tensor, size_t num_inputs
) {
  std::vector<float> values(static_cast<size_t>(tensor.num_rows() * tensor.row_length()));
  std::vector<uint8_t> codes(values.size());
  std::vector<float> scales(values.size() / num_inputs);
  std::vector<float> bases(scales.size());
  const int64_t half = tensor.num_rows() / 2;
  const auto split = static_cast<size_t>(half * tensor.row_length());
  const auto read = [&](int64_t row, int64_t count, size_t begin, size_t length) {
    const StoredCodes part = {
        std::span(codes).subspan(begin, length),
        std::span(scales).subspan(begin / num_inputs, length / num_inputs),
        std::span(bases).subspan(begin / num_inputs, length / num_inputs),
        num_inputs};
    weights.read_codes(tensor, row, count, part);
  };
  read(0, half, 0, split);
  read(half, tensor.num_rows() - half, split, values.size() - split);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(codes[i]) * scales[i / num_inputs] + bases[i / num_inputs];
  }
  return values;
}

// Of each type that has any, and in the order of Hugging Face's rows.
TEST(GgufWeights, CodesStandForTheValues) {
  std::set<StorageType> coded;
  for (const char* const name : {"blocks.gguf", "tiny-llama.gguf"}) {
    Result<MappedFile> mapped = MappedFile::open(kGolden + name);
    const Result<GgufFile> file = GgufFile::parse(mapped->bytes());
    ASSERT_TRUE(file) << file.error().message;
    const auto weights = gguf_weights(std::move(*mapped), *file);
    ASSERT_TRUE(weights) << weights.error().message;
    for (const TensorInfo& tensor : (*weights)->tensors()) {
      const CodeForm form = (*weights)->code_form(tensor);
      const bool is_matrix = tensor.shape.size() == 2;
      ASSERT_EQ(form, is_matrix ? code_form(tensor.storage) : CodeForm{}) << tensor.name;
      if (!form) continue;
      coded.insert(tensor.storage);
      const std::vector<float> values = read_all(**weights, tensor);
      EXPECT_EQ(values_of_codes(**weights, tensor, form.num_inputs), values) << tensor.name;
      EXPECT_EQ(values_of_codes(**weights, tensor, 16), values) << tensor.name;
    }
  }
  EXPECT_EQ(coded.size(), 12);
}

TEST(GgufWeights, RowsAreTheSameHoweverTheyAreRead) {
  const OpenModel model = open_model(kGolden + "tiny-llama.gguf");
  for (const TensorInfo& info : model.weights->tensors()) {
    const std::vector<float> all = read_all(*model.weights, info);
    const auto row_length = static_cast<size_t>(info.row_length());
    std::vector<float> row(row_length);
    for (int64_t i = info.num_rows() - 1; i >= 0; --i) {
      model.weights->read_rows(info, i, 1, row);
      ASSERT_EQ(
          std::memcmp(row.data(), all.data() + static_cast<size_t>(i) * row_length, row_length * 4),
          0
      ) << info.name
        << " row " << i;
    }
  }
}

std::unique_ptr<WeightSource> weights_of(const GgufWriter& writer, const TestFolder& at) {
  at.write("m.gguf", writer.file());
  Result<MappedFile> mapped = MappedFile::open(at.path("m.gguf"));
  const Result<GgufFile> file = GgufFile::parse(mapped->bytes());
  EXPECT_TRUE(file) << file.error().message;
  Result<std::unique_ptr<WeightSource>> weights = gguf_weights(std::move(*mapped), *file);
  EXPECT_TRUE(weights) << weights.error().message;
  return std::move(*weights);
}

// Two heads of four rows for q, one for k. Stored rows of a head are (0, 2), (1, 3) side by side.
TEST(GgufWeights, PutsLlamasRowsAndBiasesBackInOrder) {
  const TestFolder directory;
  const auto weights = weights_of(
      small_model("llama").f32("blk.0.attn_q.weight", {1, 8}).f32("blk.0.attn_k.bias", {4}),
      directory
  );
  const TensorInfo* q = weights->find("model.layers.0.self_attn.q_proj.weight");
  ASSERT_NE(q, nullptr);
  EXPECT_EQ(read_all(*weights, *q), (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
  const TensorInfo* k = weights->find("model.layers.0.self_attn.k_proj.bias");
  ASSERT_NE(k, nullptr);
  EXPECT_EQ(read_all(*weights, *k), (std::vector<float>{0, 2, 1, 3}));
}

TEST(GgufWeights, LeavesQwensRowsAsTheyAre) {
  const TestFolder directory;
  const auto weights =
      weights_of(small_model("qwen2").f32("blk.0.attn_q.weight", {1, 8}), directory);
  const TensorInfo* q = weights->find("model.layers.0.self_attn.q_proj.weight");
  ASSERT_NE(q, nullptr);
  EXPECT_EQ(read_all(*weights, *q), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(GgufWeights, RenamesWhatItKnowsAndNothingElse) {
  const TestFolder directory;
  const auto weights = weights_of(
      small_model("qwen3")
          .f32("output.weight", {8, 5})
          .f32("blk.12.attn_k_norm.weight", {4})
          .f32("blk.0.ffn_down.weight", {6, 8})
          .f32("blk.x.ffn_down.weight", {6, 8})
          .f32("blk.0.ffn_gate_inp.weight", {8, 2})
          .f32("blk.0.ffn_up_exps.weight", {2, 8})
          .f32("blk.0.ffn_up.scale", {8})
          .f32("rope_freqs.weight", {4})
          .f32("odd", {4}),
      directory
  );
  std::vector<std::string> names;
  for (const TensorInfo& info : weights->tensors()) names.push_back(info.name);
  EXPECT_THAT(
      names,
      testing::ElementsAre(
          "model.embed_tokens.weight",
          "lm_head.weight",
          "model.layers.12.self_attn.k_norm.weight",
          "model.layers.0.mlp.down_proj.weight",
          "blk.x.ffn_down.weight",
          "model.layers.0.mlp.gate.weight",
          "blk.0.ffn_up_exps.weight",
          "blk.0.ffn_up.scale",
          "odd"
      )
  );
}

std::string weights_error_of(const GgufWriter& writer) {
  const TestFolder directory;
  directory.write("m.gguf", writer.file());
  Result<MappedFile> mapped = MappedFile::open(directory.path("m.gguf"));
  const Result<GgufFile> file = GgufFile::parse(mapped->bytes());
  EXPECT_TRUE(file) << file.error().message;
  const auto weights = gguf_weights(std::move(*mapped), *file);
  return weights ? "no error" : weights.error().message;
}

TEST(GgufWeights, RefusesHeadsThatDoNotDivideTheRows) {
  EXPECT_THAT(
      weights_error_of(small_model("llama").f32("blk.0.attn_q.weight", {8, 7})),
      HasSubstr("7 rows, which are not 2 heads")
  );
}

TEST(GgufWeights, RefusesMoreExpertsThanAnyModelHas) {
  EXPECT_THAT(
      weights_error_of(small_model("qwen3moe").f32("blk.0.ffn_up_exps.weight", {1, 1, 4097})),
      HasSubstr("'blk.0.ffn_up_exps.weight' is of 4097 experts, at most 4096 are read")
  );
}

// Few bytes of a file took gigabytes: the limit was one of each tensor, and there may be a million.
TEST(GgufWeights, RefusesMoreExpertsInAllThanAnyModelHas) {
  const auto with_tensors = [](int count) {
    GgufWriter writer = small_model("qwen3moe");
    for (int i = 0; i < count; ++i) {
      writer.tensor(
          fmt::format("blk.{}.ffn_up_exps.weight", i), {1, 1, 4096}, 24, std::string(4096, 'x')
      );
    }
    return writer;
  };
  EXPECT_THAT(
      weights_error_of(with_tensors(97)),
      HasSubstr("the experts of all layers have 397312 matrices, at most 393216 are read")
  );
}

}  // namespace
}  // namespace millrace
