// Models of which other tools have stored most matrices in 4 bits, and some in more or in none.
#include "model/coded_matrices.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "checkpoint/blocks/block_bytes.h"
#include "kernels/quantized/linear_quantized_kernel.h"
#include "model/memory_plan.h"
#include "model/model_test_data.h"
#include "model/shard.h"
#include "model/weights.h"

namespace millrace {
namespace {

using testing::HasSubstr;

const std::string kFirst = "model.layers.0.";
const std::string kSecond = "model.layers.1.";

// As llama.cpp's mixtures have them, and one matrix in no bits that any format has, one in none.
TinyWeights mixture(const ModelConfig& config) {
  const std::string head = config.tie_word_embeddings ? "model.embed_tokens" : "lm_head";
  const std::map<std::string, StorageType> storages = {
      {head + ".weight", StorageType::kQ6_K},
      {kFirst + "self_attn.v_proj.weight", StorageType::kQ6_K},
      {kFirst + "self_attn.o_proj.weight", StorageType::kQ8_0},
      {kFirst + "mlp.gate_proj.weight", StorageType::kQ5_K},
      {kFirst + "mlp.down_proj.weight", StorageType::kQ6_K},
      {kSecond + "self_attn.o_proj.weight", StorageType::kIQ4_XS},
      {kSecond + "mlp.up_proj.weight", StorageType::kQ8_0},
      {kSecond + "mlp.down_proj.weight", StorageType::kF16}};
  TinyWeights weights(config, 5);
  for (TensorInfo& tensor : weights.mutable_tensors()) {
    const auto storage = storages.find(tensor.name);
    if (storage != storages.end()) tensor.storage = storage->second;
  }
  return weights;
}

TinyWeights mixture_with_embedding(const ModelConfig& config, StorageType storage) {
  TinyWeights weights = mixture(config);
  for (TensorInfo& tensor : weights.mutable_tensors()) {
    if (tensor.name == "model.embed_tokens.weight") tensor.storage = storage;
  }
  return weights;
}

CpuModelOptions options_of_codes() {
  CpuModelOptions options;
  options.dtype = DType::kFloat32;
  options.quantization = Quantization::stored();
  options.num_blocks = 16;
  options.max_model_len = 200;
  options.max_num_batched_tokens = 64;
  options.max_num_logits = 64;
  return options;
}

// The bytes of all matrices, which the plan counts without loading them.
void expect_planned_bytes(
    const ModelConfig& config, const WeightSource& weights, size_t num_bytes
) {
  const CpuModelOptions options = options_of_codes();
  Result<CodedMatrices> coded = CodedMatrices::find(config, weights);
  ASSERT_TRUE(coded) << coded.error().message;
  MemoryPlanOptions plan_options;
  plan_options.weight_dtype = options.dtype;
  plan_options.quantization = options.quantization;
  plan_options.coded = std::make_shared<CodedMatrices>(*std::move(coded));
  plan_options.max_num_batched_tokens = 64;
  plan_options.max_num_seqs = 64;
  plan_options.max_model_len = 200;
  plan_options.num_threads = 2;
  const Result<MemoryPlan> plan = plan_memory(config, plan_options);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->weights.total() - plan->weights.norms, static_cast<int64_t>(num_bytes));
}

TEST(CodedMatrices, AreInTheFormatOfTheFewestBits) {
  using enum QuantizedFormat;
  EXPECT_EQ(format_of_codes({4, 64, false}), kUint4);
  EXPECT_EQ(format_of_codes({4, 64, true}), kUint4AroundZero);
  EXPECT_EQ(format_of_codes({4, 32, true}), kUint4By32AroundZero);
  EXPECT_EQ(format_of_codes({4, 32, false}), kUint4By32);
  EXPECT_EQ(format_of_codes({2, 16, false}), kUint4By16);
  EXPECT_EQ(format_of_codes({3, 16, true}), kUint4By16);
  EXPECT_EQ(format_of_codes({5, 16, false}), kUint6By16);
  EXPECT_EQ(format_of_codes({5, 32, true}), kUint5By32);
  EXPECT_EQ(format_of_codes({6, 16, true}), kUint6By16AroundZero);
  EXPECT_EQ(format_of_codes({6, 32, false}), kUint6By16);
  EXPECT_EQ(format_of_codes({8, 64, true}), kUint8By32AroundZero);
  EXPECT_EQ(format_of_codes({8, 32, true, true}), kIq4);
  EXPECT_EQ(format_of_codes({8, 32, false, true}), std::nullopt);
  EXPECT_EQ(format_of_codes({8, 32, false}), std::nullopt);
  EXPECT_EQ(format_of_codes({8, 16, true}), std::nullopt);
  EXPECT_EQ(format_of_codes({}), std::nullopt);
}

TEST(CodedMatrices, AreWholeMatricesOfStoredCodes) {
  const ModelConfig config = tiny_config(ModelFamily::kQwen3);
  const Result<CodedMatrices> coded = CodedMatrices::find(config, mixture(config));
  ASSERT_TRUE(coded) << coded.error().message;
  const auto format_of = [&](const std::string& name) {
    return coded->format_of(name + "_proj.weight", DType::kFloat16);
  };
  for (const char* const part : {"q", "k", "v"}) {
    const std::string name = std::string("self_attn.") + part;
    EXPECT_EQ(format_of(kFirst + name), MatrixFormat(QuantizedFormat::kUint6By16)) << part;
    EXPECT_EQ(format_of(kSecond + name), MatrixFormat(QuantizedFormat::kUint4)) << part;
  }
  EXPECT_EQ(format_of(kFirst + "self_attn.o"), MatrixFormat(QuantizedFormat::kUint8By32AroundZero));
  EXPECT_EQ(format_of(kFirst + "mlp.up"), MatrixFormat(QuantizedFormat::kUint5By32));
  EXPECT_EQ(format_of(kFirst + "mlp.down"), MatrixFormat(QuantizedFormat::kUint6By16AroundZero));
  EXPECT_EQ(format_of(kSecond + "self_attn.o"), MatrixFormat(QuantizedFormat::kIq4));
  EXPECT_EQ(format_of(kSecond + "mlp.gate"), MatrixFormat(QuantizedFormat::kInt8));
  EXPECT_EQ(format_of(kSecond + "mlp.down"), MatrixFormat(DType::kFloat16));
  EXPECT_EQ(coded->format_of_head(), QuantizedFormat::kUint6By16AroundZero);
  EXPECT_EQ(coded->names(), "iq4, uint4, uint5, uint6, uint8");
  EXPECT_EQ(
      coded->others(DType::kFloat16),
      "1 of 12 matrices are kept as float16, not as they are stored, "
      "1 of 12 matrices are kept as int8, not as they are stored"
  );
}

// That a model says nearly the same with `others`, of which one matrix is stored in fewer bits.
void expect_nearly_the_logits_of(
    const ModelConfig& config, const WeightSource& weights, const WeightSource& others
) {
  const std::vector<float> expected = logits_of(config, weights, Quantization::stored());
  const std::vector<float> found = logits_of(config, others, Quantization::stored());
  double error = 0.0;
  double square = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(static_cast<double>(found[i] - expected[i]), 2);
    square += std::pow(static_cast<double>(expected[i]), 2);
  }
  EXPECT_LT(std::sqrt(error / square), 0.1);
  EXPECT_GT(error, 0.0);
}

// Tied, they are one matrix; of processes that share a model each has all of the one and a part of
// the other.
TEST(CodedMatrices, TheEmbeddingIsTheHead) {
  ModelConfig config = tiny_config(ModelFamily::kLlama);
  config.tie_word_embeddings = true;
  const TinyWeights weights = mixture(config);
  const auto coded = CodedMatrices::find(config, weights);
  ASSERT_TRUE(coded) << coded.error().message;
  EXPECT_TRUE(coded->embedding_is_head());
  EXPECT_FALSE(CodedMatrices::find(config, TinyWeights(config, 5))->embedding_is_head());
  ModelConfig part = config;
  part.num_head_parts = 2;
  EXPECT_FALSE(CodedMatrices::find(part, weights)->embedding_is_head());

  ThreadPool threads(2);
  const WeightFormat format = {options_of_codes().dtype, Quantization::stored()};
  const auto loaded = load_weights(config, weights, format, threads);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_FALSE(loaded->lm_head);
  EXPECT_EQ(loaded->embedding.quantized()->format(), QuantizedFormat::kUint6By16AroundZero);
  expect_planned_bytes(config, weights, loaded->num_bytes());

  // Nearly as with an embedding in float32 and a head of its own.
  const TinyWeights plain = mixture_with_embedding(config, StorageType::kF32);
  expect_nearly_the_logits_of(config, plain, weights);
}

// Not tied, it keeps its own, all of them in each process too.
TEST(CodedMatrices, TheEmbeddingKeepsItsCodesBesideAHead) {
  const ModelConfig config = tiny_config(ModelFamily::kLlama);
  const TinyWeights weights = mixture_with_embedding(config, StorageType::kQ5_K);
  const TinyWeights plain = mixture_with_embedding(config, StorageType::kF32);
  EXPECT_EQ(CodedMatrices::find(config, plain)->format_of_embedding(), std::nullopt);
  ModelConfig part = config;
  part.num_head_parts = 2;
  for (const ModelConfig& each : {config, part}) {
    const auto coded = CodedMatrices::find(each, weights);
    ASSERT_TRUE(coded) << coded.error().message;
    EXPECT_EQ(coded->format_of_embedding(), QuantizedFormat::kUint5By32);
    EXPECT_EQ(coded->format_of_head(), QuantizedFormat::kUint6By16AroundZero);
    EXPECT_FALSE(coded->embedding_is_head());
  }

  ThreadPool threads(2);
  const WeightFormat format = {options_of_codes().dtype, Quantization::stored()};
  const auto loaded = load_weights(config, weights, format, threads);
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_TRUE(loaded->lm_head);
  EXPECT_EQ(loaded->embedding.quantized()->format(), QuantizedFormat::kUint5By32);
  EXPECT_EQ(loaded->lm_head->quantized()->format(), QuantizedFormat::kUint6By16AroundZero);
  expect_planned_bytes(config, weights, loaded->num_bytes());
  expect_nearly_the_logits_of(config, plain, weights);
}

TEST(CodedMatrices, HaveTheSixteenCodesOfIq4) {
  EXPECT_TRUE(std::ranges::equal(blocks::kIq4Codes, kIq4Codes));
}

// Parts of one matrix in codes of which no format has all, beside what has none.
TEST(CodedMatrices, AreRefusedWhereTooFewKeepTheirCodes) {
  const ModelConfig config = tiny_config(ModelFamily::kLlama);
  TinyWeights weights(config, 5);
  for (TensorInfo& tensor : weights.mutable_tensors()) {
    if (tensor.name.ends_with("up_proj.weight")) tensor.storage = StorageType::kQ8_0;
    if (tensor.name.ends_with("v_proj.weight")) tensor.storage = StorageType::kQ8_0;
    if (tensor.name.ends_with("down_proj.weight")) tensor.storage = StorageType::kF16;
    if (tensor.name.ends_with("o_proj.weight")) tensor.storage = StorageType::kF16;
  }
  const Result<CodedMatrices> coded = CodedMatrices::find(config, weights);
  ASSERT_FALSE(coded);
  EXPECT_EQ(coded.error().code, ErrorCode::kInvalidArgument);
}

TEST(CodedMatrices, OfALayersExpertsAreOne) {
  const ModelConfig config = tiny_mixture();
  TinyWeights weights(config, 5);
  for (TensorInfo& tensor : weights.mutable_tensors()) {
    const bool is_of_third = tensor.name.starts_with(kFirst + "mlp.experts.3.");
    if (is_of_third && tensor.name.ends_with("up_proj.weight")) {
      tensor.storage = StorageType::kQ8_0;
    }
    if (is_of_third && tensor.name.ends_with("down_proj.weight")) {
      tensor.storage = StorageType::kQ5_K;
    }
  }
  const Result<CodedMatrices> coded = CodedMatrices::find(config, weights);
  ASSERT_TRUE(coded) << coded.error().message;
  EXPECT_EQ(
      coded->format_of(kFirst + "mlp.experts.0.gate_proj.weight", DType::kFloat16),
      MatrixFormat(QuantizedFormat::kInt8)
  );
  EXPECT_EQ(
      coded->format_of(kFirst + "mlp.shared_expert.gate_proj.weight", DType::kFloat16),
      MatrixFormat(QuantizedFormat::kUint4)
  );
  ThreadPool threads(2);
  const WeightFormat format = {DType::kFloat16, Quantization::stored()};
  const auto loaded = load_weights(config, weights, format, threads);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->layers[0].experts->gate_up.quantized()->format(), QuantizedFormat::kInt8);
  EXPECT_EQ(loaded->layers[0].experts->down.quantized()->format(), QuantizedFormat::kUint5By32);
}

// Codes of which a row has one scale or one base that is not finite.
class BrokenCodes : public TinyWeights {
 public:
  struct Place {
    std::string tensor;
    int64_t row = 0;
    bool is_base = false;  // else a scale
    float value = NAN;
  };

  BrokenCodes(TinyWeights weights, Place place)
      : TinyWeights(std::move(weights)), place_(std::move(place)) {}

  void read_codes(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, const StoredCodes& out
  ) const override {
    TinyWeights::read_codes(tensor, row_begin, num_rows, out);
    const int64_t row = place_.row - row_begin;
    if (tensor.name != place_.tensor || row < 0 || row >= num_rows) return;
    const std::span<float> values = place_.is_base ? out.bases : out.scales;
    const auto num_scales = static_cast<int64_t>(values.size()) / num_rows;
    values[static_cast<size_t>((row + 1) * num_scales - 1)] = place_.value;
  }

 private:
  Place place_;
};

// What loading says of it; none: it was loaded.
std::optional<Error> load_error(const ModelConfig& config, const WeightSource& weights) {
  ThreadPool threads(1);
  const WeightFormat format = {DType::kFloat32, Quantization::stored()};
  const Result<ModelWeights> loaded = load_weights(config, weights, format, threads);
  return loaded ? std::nullopt : std::optional(loaded.error());
}

std::optional<Error> not_finite(const std::string& tensor, int64_t row) {
  return invalid_argument(
      fmt::format("tensor '{}' holds a value that is not finite, in row {}", tensor, row), tensor
  );
}

// Codes became zeros, and the model answered nonsense without a word.
TEST(CodedMatrices, WithScalesOrBasesThatAreNotFiniteAreRefused) {
  const ModelConfig config = tiny_config(ModelFamily::kLlama);
  for (const StorageType storage :
       {StorageType::kQ4_0,
        StorageType::kQ4_1,
        StorageType::kQ5_0,
        StorageType::kQ5_1,
        StorageType::kQ8_0,
        StorageType::kQ2_K,
        StorageType::kQ3_K,
        StorageType::kQ4_K,
        StorageType::kQ5_K,
        StorageType::kQ6_K,
        StorageType::kIQ4_NL,
        StorageType::kIQ4_XS}) {
    const bool has_bases = code_format(*format_of_codes(code_form(storage)))->has_bases;
    TinyWeights weights(config, 5);
    for (TensorInfo& tensor : weights.mutable_tensors()) {
      if (tensor.shape.size() == 2) tensor.storage = storage;
    }
    for (const std::string& name :
         {std::string("model.embed_tokens.weight"),
          kSecond + "self_attn.k_proj.weight",
          kSecond + "mlp.up_proj.weight",
          kSecond + "mlp.down_proj.weight",
          std::string("lm_head.weight")}) {
      for (const float value : {NAN, -INFINITY}) {
        const BrokenCodes scale(weights, {name, 19, false, value});
        EXPECT_EQ(load_error(config, scale), not_finite(name, 19)) << static_cast<int>(storage);
        const BrokenCodes base(weights, {name, 19, true, value});
        EXPECT_EQ(load_error(config, base), has_bases ? not_finite(name, 19) : std::nullopt)
            << static_cast<int>(storage);
      }
    }
  }
}

TEST(CodedMatrices, WithScalesThatAreNotFiniteAreRefusedInExperts) {
  const ModelConfig config = tiny_mixture();
  for (const char* const part : {"3.up_proj", "4.down_proj"}) {
    const std::string name = kFirst + "mlp.experts." + part + ".weight";
    const BrokenCodes broken(TinyWeights(config, 5), {.tensor = name, .row = 17});
    EXPECT_EQ(load_error(config, broken), not_finite(name, 17));
  }
}

// The last input of a row is the second process's.
TEST(CodedMatrices, WithScalesThatAreNotFiniteAreRefusedByTheProcessThatHasThem) {
  ModelConfig whole = tiny_config(ModelFamily::kQwen3);
  whole.intermediate_size = 128;
  const std::string name = kSecond + "mlp.down_proj.weight";
  const BrokenCodes broken(TinyWeights(whole, 5), {.tensor = name, .row = 17});
  for (const int32_t rank : {0, 1}) {
    const ModelShard shard = {.rank = rank, .world_size = 2};
    const auto weights = ShardedWeights::make(whole, shard, broken);
    ASSERT_TRUE(weights) << weights.error().message;
    EXPECT_EQ(
        load_error(*shard_config(whole, shard), **weights),
        rank == 1 ? not_finite(name, 17) : std::nullopt
    );
  }
}

TEST(CodedMatrices, AreRefusedWhereMostWeightsAreStoredOtherwise) {
  const ModelConfig config = tiny_config(ModelFamily::kLlama);
  TinyWeights weights(config, 5);
  for (TensorInfo& tensor : weights.mutable_tensors()) {
    if (tensor.name.find(".mlp.") != std::string::npos) tensor.storage = StorageType::kBF16;
  }
  const Result<CodedMatrices> coded = CodedMatrices::find(config, weights);
  ASSERT_FALSE(coded);
  EXPECT_EQ(coded.error().where, kFirst + "mlp.down_proj.weight");
  EXPECT_THAT(coded.error().message, HasSubstr("so are most of the layers' weights"));
}

// The logits of the same model in float32 but for what int8 and 4 bits cost, and the bytes that the
// plan counts.
TEST(CodedMatrices, AreLoadedBesideOthers) {
  const ModelConfig config = tiny_config(ModelFamily::kLlama);
  const TinyWeights weights = mixture(config);
  const CpuModelOptions options = options_of_codes();
  ThreadPool threads(2);
  const auto model = CpuModel::load(config, weights, options, threads);
  ASSERT_TRUE(model) << model.error().message;

  const WeightFormat format = {options.dtype, options.quantization};
  const Result<ModelWeights> loaded = load_weights(config, weights, format, threads);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->layers[0].qkv.quantized()->format(), QuantizedFormat::kUint6By16);
  EXPECT_EQ(loaded->layers[1].gate_up.quantized()->format(), QuantizedFormat::kInt8);
  EXPECT_EQ(loaded->output_head().quantized()->format(), QuantizedFormat::kUint6By16AroundZero);
  EXPECT_NE(loaded->layers[1].down.packed(), nullptr);
  EXPECT_EQ(loaded->layers[1].qkv.quantized()->format(), QuantizedFormat::kUint4);

  expect_planned_bytes(config, weights, (*model)->num_weight_bytes());

  // The same bits however the tokens come.
  const std::vector<TokenId> prompt = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3};
  const auto logits_in_chunks = [&](int32_t chunk_tokens) {
    const std::vector<std::vector<TokenId>> prompts = {prompt};
    std::vector<TestSequence> sequences = make_sequences(**model, prompts, 1);
    std::vector<float> all;
    while (sequences[0].num_left() > 0) {
      const TestChunk chunk{&sequences[0], std::min(chunk_tokens, sequences[0].num_left())};
      const std::span<const float> logits =
          (*model)->forward(make_batch(std::span(&chunk, 1), (*model)->block_size()));
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  };
  const std::vector<float> at_once = logits_in_chunks(18);
  for (const int32_t chunk_tokens : {1, 3, 7}) {
    EXPECT_EQ(bits_of(logits_in_chunks(chunk_tokens)), bits_of(at_once)) << chunk_tokens;
  }

  // All of it in 4 bits is further from it.
  const TinyWeights all_codes(config, 5);
  const std::vector<float> exact = logits_of(config, weights);
  const auto error_of = [&](const TinyWeights& source) {
    const std::vector<float> found = logits_of(config, source, options.quantization);
    double error = 0.0;
    for (size_t i = 0; i < exact.size(); ++i) {
      error += std::pow(static_cast<double>(found[i] - exact[i]), 2);
    }
    return error;
  };
  EXPECT_LT(error_of(weights), error_of(all_codes));
}

}  // namespace
}  // namespace millrace
