#include "model/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view kLlama = R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 64,
    "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100})";
constexpr std::string_view kQwen2 = R"({"model_type": "qwen2", "hidden_size": 64,
    "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100})";
constexpr std::string_view kQwen3 = R"({"model_type": "qwen3", "hidden_size": 64,
    "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100})";
constexpr std::string_view kQwen2Moe = R"({"model_type": "qwen2_moe", "hidden_size": 64,
    "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 100,
    "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 48})";

// `base` with the fields of `changes` put in; a field of the string "absent" is taken out.
Result<ModelConfig> parse(std::string_view base, std::string_view changes = "{}") {
  json::object object = json::parse(std::string(base)).as_object();
  const json::object fields = json::parse(std::string(changes)).as_object();
  for (const auto& [key, value] : fields) {
    if (value == "absent") {
      object.erase(key);
    } else {
      object[key] = value;
    }
  }
  return parse_model_config(object);
}

Error error_of(std::string_view base, std::string_view changes) {
  const Result<ModelConfig> config = parse(base, changes);
  return config ? Error{ErrorCode::kInternal, "no error", {}} : config.error();
}

TEST(ModelConfig, FillsInTheDefaultsOfLlama) {
  const Result<ModelConfig> config = parse(kLlama);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->family, ModelFamily::kLlama);
  EXPECT_EQ(config->num_kv_heads, 4);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->max_position_embeddings, 2048);
  EXPECT_EQ(config->rms_norm_eps, 1e-6);
  EXPECT_EQ(config->rope_theta, 10000.0);
  EXPECT_FALSE(config->rope_scaling);
  EXPECT_FALSE(config->attention_bias);
  EXPECT_FALSE(config->attention_out_bias);
  EXPECT_FALSE(config->qk_norm);
  EXPECT_FALSE(config->tie_word_embeddings);
  EXPECT_FALSE(config->moe);
  EXPECT_FALSE(config->dtype);
  EXPECT_EQ(config->bos_token_id, 1);
  EXPECT_THAT(config->eos_token_ids, ElementsAre(2));
}

TEST(ModelConfig, KnowsWhatSetsTheFamiliesApart) {
  const Result<ModelConfig> qwen2 = parse(kQwen2);
  ASSERT_TRUE(qwen2);
  EXPECT_TRUE(qwen2->attention_bias);
  EXPECT_FALSE(qwen2->attention_out_bias);
  EXPECT_EQ(qwen2->head_dim, 16);
  EXPECT_EQ(qwen2->max_position_embeddings, 32768);
  EXPECT_FALSE(qwen2->bos_token_id);
  EXPECT_THAT(qwen2->eos_token_ids, IsEmpty());

  const Result<ModelConfig> qwen3 = parse(kQwen3);
  ASSERT_TRUE(qwen3);
  EXPECT_FALSE(qwen3->attention_bias);
  EXPECT_TRUE(qwen3->qk_norm);
  EXPECT_EQ(qwen3->head_dim, 128);
  EXPECT_EQ(qwen3->q_size(), 512);

  const Result<ModelConfig> biased = parse(kLlama, R"({"attention_bias": true, "mlp_bias": true})");
  ASSERT_TRUE(biased);
  EXPECT_TRUE(biased->attention_bias);
  EXPECT_TRUE(biased->attention_out_bias);
  EXPECT_TRUE(biased->mlp_bias);
}

TEST(ModelConfig, ReadsBothSpellingsOfLlama31sRope) {
  const std::string fields =
      R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 8192, "rope_type": "llama3")";
  for (const std::string& spelling :
       {fmt::format(R"({{"rope_theta": 500000.0, "rope_scaling": {{{}}}}})", fields),
        fmt::format(R"({{"rope_parameters": {{"rope_theta": 500000.0, {}}}}})", fields)}) {
    const Result<ModelConfig> config = parse(kLlama, spelling);
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->rope_theta, 500000.0);
    ASSERT_TRUE(config->rope_scaling);
    EXPECT_EQ(config->rope_scaling->factor, 8.0);
    EXPECT_EQ(config->rope_scaling->high_freq_factor, 4.0);
    EXPECT_EQ(config->rope_scaling->original_max_position_embeddings, 8192);
  }
  const Result<ModelConfig> plain =
      parse(kQwen3, R"({"rope_parameters": {"rope_theta": 1000000, "rope_type": "default"}})");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->rope_theta, 1e6);
  EXPECT_FALSE(plain->rope_scaling);
}

TEST(ModelConfig, RefusesOtherRopesByName) {
  for (const std::string type : {"yarn", "linear", "dynamic", "longrope", "mrope"}) {
    for (const std::string key : {"rope_type", "type"}) {
      const Error error = error_of(
          kLlama, fmt::format(R"({{"rope_scaling": {{"{}": "{}", "factor": 4.0}}}})", key, type)
      );
      EXPECT_EQ(error.code, ErrorCode::kUnsupported);
      EXPECT_THAT(error.message, HasSubstr("rope type '" + type + "' is not supported"));
      EXPECT_EQ(error.where, "rope_scaling.rope_type");
    }
  }
  const Error two_types =
      error_of(kLlama, R"({"rope_scaling": {"rope_type": "default", "type": "linear"}})");
  EXPECT_EQ(
      two_types.message, "'rope_type' is 'default' and 'type' is 'linear': expected the same"
  );
  EXPECT_EQ(two_types.where, "rope_scaling.rope_type");
  EXPECT_TRUE(parse(kLlama, R"({"rope_scaling": {"rope_type": "default", "type": "default"}})"));
  EXPECT_THAT(
      error_of(kLlama, R"({"partial_rotary_factor": 0.5})").message, HasSubstr("partial rotary")
  );
  EXPECT_THAT(
      error_of(kLlama, R"({"rope_parameters": {"full_attention": {"rope_type": "default"}}})")
          .message,
      HasSubstr("per layer type")
  );
  EXPECT_EQ(
      error_of(kLlama, R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}})").where,
      "rope_scaling.low_freq_factor"
  );
  EXPECT_THAT(
      error_of(
          kLlama,
          R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0,
              "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})"
      )
          .message,
      HasSubstr("must be greater than")
  );
}

TEST(ModelConfig, RefusesSlidingWindowsInUseAndNoOthers) {
  const std::string window = R"("sliding_window": 4096, "use_sliding_window": true)";
  EXPECT_THAT(
      error_of(kQwen2, "{" + window + R"(, "max_window_layers": 1})").message,
      HasSubstr("sliding windows are not supported")
  );
  EXPECT_TRUE(parse(kQwen2, "{" + window + R"(, "max_window_layers": 2})"));
  EXPECT_TRUE(parse(kQwen2, "{" + window + "}")) << "the default begins at layer 28";
  EXPECT_TRUE(parse(kQwen2, R"({"sliding_window": 4096, "use_sliding_window": false})"));
  EXPECT_TRUE(parse(kQwen2, R"({"sliding_window": 4096})"));
  EXPECT_TRUE(parse(kQwen2, R"({"sliding_window": null, "use_sliding_window": true})"));
  EXPECT_FALSE(parse(kQwen2Moe, "{" + window + "}"));
  EXPECT_FALSE(parse(kLlama, R"({"sliding_window": 4096})"));
  EXPECT_TRUE(parse(kQwen2, R"({"layer_types": ["full_attention", "full_attention"]})"));
  EXPECT_THAT(
      error_of(kQwen2, R"({"layer_types": ["full_attention", "sliding_attention"]})").message,
      HasSubstr("layers of type 'sliding_attention'")
  );
  for (const char* const types : {R"("sliding_attention")", R"(["full_attention"])", "{}"}) {
    EXPECT_THAT(
        error_of(kQwen2, fmt::format(R"({{"layer_types": {}}})", types)).message,
        HasSubstr("'layer_types' must be a list of the types of 2 layers")
    );
  }
}

TEST(ModelConfig, RefusesWhatItDoesNotKnowByName) {
  EXPECT_THAT(
      error_of(kLlama, R"({"architectures": ["GptOssForCausalLM"]})").message,
      HasSubstr("'GptOssForCausalLM' is not supported (supported: LlamaForCausalLM, Qwen2")
  );
  EXPECT_THAT(
      error_of(kQwen2, R"({"model_type": "gemma"})").message, HasSubstr("'gemma' is not supported")
  );
  EXPECT_THAT(error_of(kQwen2, R"({"model_type": "absent"})").message, HasSubstr("are missing"));
  EXPECT_THAT(error_of(kLlama, R"({"architectures": []})").message, HasSubstr("a list of one"));
  EXPECT_THAT(
      error_of(kLlama, R"({"hidden_act": "gelu"})").message, HasSubstr("activation 'gelu'")
  );
  EXPECT_THAT(
      error_of(kLlama, R"({"quantization_config": {"quant_method": "hqq"}})").message,
      HasSubstr("quantized by 'hqq' are not supported (awq, gptq, fp8")
  );
  EXPECT_THAT(
      error_of(kLlama, R"({"torch_dtype": "float64"})").message, HasSubstr("dtype 'float64'")
  );
  const auto millrace_error = [](const std::string& rest) {
    return error_of(
               kLlama, R"({"quantization_config": {"quant_method": "millrace", )" + rest + "}}"
    )
        .message;
  };
  EXPECT_THAT(
      millrace_error(R"("format": "int8", "version": 2)"), HasSubstr("quantize the original again")
  );
  EXPECT_THAT(millrace_error(R"("format": "int8")"), HasSubstr("quantize the original again"));
  EXPECT_THAT(
      millrace_error(R"("format": "int4", "version": 2)"),
      HasSubstr("another version of millrace (2, expected 3): quantize the original again")
  );
  EXPECT_THAT(
      millrace_error(R"("format": "int5", "version": 1)"),
      HasSubstr("format 'int5' is not supported (supported: int8, int4)")
  );
  EXPECT_THAT(millrace_error(R"("format": "int8", "version": "1")"), HasSubstr("version"));
  EXPECT_TRUE(parse(kLlama, R"({"quantization_config": null, "hidden_act": "swish"})"));
}

TEST(ModelConfig, KnowsWhatMillraceQuantized) {
  const auto config = parse(
      kLlama,
      R"({"quantization_config": {"quant_method": "millrace", "format": "int4", "version": 3}})"
  );
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->stored_quantization, QuantizedFormat::kInt4);
  EXPECT_EQ(parse(kLlama, "{}")->stored_quantization, std::nullopt);
}

TEST(ModelConfig, ReadsEitherSpellingOfTheDtype) {
  EXPECT_EQ(parse(kLlama, R"({"torch_dtype": "bfloat16"})")->dtype, DType::kBFloat16);
  EXPECT_EQ(parse(kLlama, R"({"dtype": "float16"})")->dtype, DType::kFloat16);
}

TEST(ModelConfig, NamesTheFieldThatIsOutOfRange) {
  for (const std::string key :
       {"hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "vocab_size"}) {
    EXPECT_EQ(error_of(kLlama, fmt::format(R"({{"{}": "absent"}})", key)).where, key);
    for (const std::string value :
         {"0", "-1", "1.5", "\"8\"", "true", "[]", "16777217", "9223372036854775807", "1e300"}) {
      const Error error = error_of(kLlama, fmt::format(R"({{"{}": {}}})", key, value));
      EXPECT_EQ(error.where, key) << value;
      EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
    }
  }
  EXPECT_EQ(error_of(kLlama, R"({"num_hidden_layers": 1025})").where, "num_hidden_layers");
  EXPECT_EQ(error_of(kLlama, R"({"num_key_value_heads": 3})").where, "num_key_value_heads");
  EXPECT_EQ(error_of(kLlama, R"({"head_dim": 15})").where, "head_dim");
  EXPECT_EQ(error_of(kLlama, R"({"head_dim": 2048})").where, "head_dim");
  EXPECT_EQ(error_of(kLlama, R"({"hidden_size": 66})").where, "head_dim");
  EXPECT_EQ(error_of(kLlama, R"({"rms_norm_eps": -1})").where, "rms_norm_eps");
  EXPECT_EQ(error_of(kLlama, R"({"rope_theta": 0})").where, "rope_theta");
  EXPECT_EQ(error_of(kLlama, R"({"tie_word_embeddings": 1})").where, "tie_word_embeddings");
  EXPECT_EQ(error_of(kLlama, R"({"max_position_embeddings": 0})").where, "max_position_embeddings");
}

TEST(ModelConfig, RefusesSizesWhoseProductIsAbsurd) {
  EXPECT_THAT(
      error_of(
          kLlama,
          R"({"hidden_size": 16777216, "intermediate_size": 16777216, "num_hidden_layers": 1024,
              "num_attention_heads": 16384, "head_dim": 1024, "vocab_size": 16777216})"
      )
          .message,
      HasSubstr("at most 2^50")
  );
}

TEST(ModelConfig, ReadsTokenIdsAsOneOrAsMany) {
  EXPECT_THAT(parse(kLlama, R"({"eos_token_id": 7})")->eos_token_ids, ElementsAre(7));
  EXPECT_THAT(parse(kLlama, R"({"eos_token_id": [7, 9]})")->eos_token_ids, ElementsAre(7, 9));
  EXPECT_THAT(parse(kLlama, R"({"eos_token_id": null})")->eos_token_ids, IsEmpty());
  EXPECT_EQ(parse(kLlama, R"({"bos_token_id": null})")->bos_token_id, std::nullopt);
  for (const std::string value : {"100", "-1", "\"2\"", "[1, 100]", "[[1]]", "2147483648"}) {
    EXPECT_EQ(
        error_of(kLlama, fmt::format(R"({{"eos_token_id": {}}})", value)).where, "eos_token_id"
    );
  }
  EXPECT_EQ(error_of(kLlama, R"({"bos_token_id": 100})").where, "bos_token_id");
}

TEST(ModelConfig, ReadsMixturesOfExperts) {
  const Result<ModelConfig> config = parse(kQwen2Moe, R"({"mlp_only_layers": [1]})");
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_TRUE(config->moe);
  EXPECT_EQ(config->moe->num_experts, 6);
  EXPECT_EQ(config->moe->num_experts_per_token, 2);
  EXPECT_EQ(config->moe->expert_intermediate_size, 32);
  EXPECT_EQ(config->moe->shared_expert_intermediate_size, 48);
  EXPECT_FALSE(config->moe->normalize_topk);
  EXPECT_TRUE(config->attention_bias);
  EXPECT_TRUE(config->has_experts(0));
  EXPECT_FALSE(config->has_experts(1));
  const Result<ModelConfig> sparse = parse(kQwen2Moe, R"({"decoder_sparse_step": 2})");
  EXPECT_FALSE(sparse->has_experts(0));
  EXPECT_TRUE(sparse->has_experts(1));
}

TEST(ModelConfig, RefusesImpossibleMixtures) {
  EXPECT_EQ(error_of(kQwen2Moe, R"({"num_experts_per_tok": 7})").where, "num_experts_per_tok");
  EXPECT_EQ(error_of(kQwen2Moe, R"({"moe_intermediate_size": 0})").where, "moe_intermediate_size");
  EXPECT_EQ(
      error_of(kQwen2Moe, R"({"num_experts": 4096, "num_hidden_layers": 1000})").where,
      "num_experts"
  );
  EXPECT_EQ(error_of(kQwen2Moe, R"({"decoder_sparse_step": 0})").where, "decoder_sparse_step");
  EXPECT_EQ(error_of(kQwen2Moe, R"({"mlp_only_layers": [-1]})").where, "mlp_only_layers");
  EXPECT_EQ(error_of(kQwen2Moe, R"({"mlp_only_layers": 3})").where, "mlp_only_layers");
}

}  // namespace
}  // namespace millrace
