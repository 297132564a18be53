// Models of 8 and 4 bits on the emulated device: against the processor's float32 model of the very
// weights they were rounded to, and against themselves.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "base/test_folder.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/test_files.h"
#include "cuda/cuda_runner.h"
#include "cuda/kernels/operand_tiles.h"
#include "cuda/model/cuda_model.h"
#include "cuda/model/cuda_model_test_data.h"
#include "cuda/model/device_weights.h"
#include "model/cpu_model.h"
#include "model/stored_weights.h"

namespace millrace::cuda {
namespace {

constexpr size_t kPanelRows = QuantizedMatrix::kPanelRows;

// A head of its own, so that it can be of other weights than the embedding.
ModelConfig untied(ModelFamily family) {
  ModelConfig config = tiny_config(family);
  config.tie_word_embeddings = false;
  return config;
}

// No family has all of them by itself.
ModelConfig with_all_biases() {
  ModelConfig config = untied(ModelFamily::kLlama);
  config.attention_bias = true;
  config.attention_out_bias = true;
  config.mlp_bias = true;
  return config;
}

// Tiny weights as they are after they were rounded to a format: what the bytes of a QuantizedMatrix
// mean.
class RoundedWeights : public WeightSource {
 public:
  RoundedWeights(const ModelConfig& config, QuantizedFormat format)
      : exact_(config, kSeed, DType::kBFloat16) {
    ThreadPool pool(1);
    Result<ModelWeights> weights = load_weights(config, exact_, {DType::kBFloat16, format}, pool);
    CHECK(weights.ok(), weights.error().message);
    weights_ = *std::move(weights);
    const auto q_size = static_cast<size_t>(config.q_size());
    const auto kv_size = static_cast<size_t>(config.kv_size());
    for (size_t i = 0; i < weights_.layers.size(); ++i) {
      const LayerWeights& layer = weights_.layers[i];
      const std::string prefix = "model.layers." + std::to_string(i) + ".";
      const auto below = [](size_t first) { return [first](size_t row) { return first + row; }; };
      const auto in_turn = [](size_t part) {
        return [part](size_t row) {
          return (row / kPanelRows * 2 + part) * kPanelRows + row % kPanelRows;
        };
      };
      add(prefix + "self_attn.q_proj.weight", layer.qkv, below(0));
      add(prefix + "self_attn.k_proj.weight", layer.qkv, below(q_size));
      add(prefix + "self_attn.v_proj.weight", layer.qkv, below(q_size + kv_size));
      add(prefix + "self_attn.o_proj.weight", layer.attention_out, below(0));
      add(prefix + "mlp.gate_proj.weight", layer.gate_up, in_turn(0));
      add(prefix + "mlp.up_proj.weight", layer.gate_up, in_turn(1));
      add(prefix + "mlp.down_proj.weight", layer.down, below(0));
    }
    add("lm_head.weight", weights_.output_head(), [](size_t row) { return row; });
  }

  std::span<const TensorInfo> tensors() const override { return exact_.tensors(); }
  const TensorInfo* find(std::string_view name) const override { return exact_.find(name); }
  void read_rows(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, std::span<float> out
  ) const override {
    const auto found = places_.find(tensor.name);
    if (found == places_.end()) return exact_.read_rows(tensor, row_begin, num_rows, out);
    const auto width = static_cast<size_t>(tensor.row_length());
    for (size_t i = 0; i < static_cast<size_t>(num_rows); ++i) {
      const size_t row = found->second.row_of(static_cast<size_t>(row_begin) + i);
      found->second.matrix->copy_row(row, out.subspan(i * width, width));
    }
  }

 private:
  struct Place {
    const QuantizedMatrix* matrix;
    std::function<size_t(size_t row)> row_of;
  };

  void add(const std::string& name, const WeightMatrix& matrix, std::function<size_t(size_t)> row) {
    CHECK(matrix.quantized() != nullptr && exact_.find(name) != nullptr, "a quantized tensor");
    places_[name] = {matrix.quantized(), std::move(row)};
  }

  TinyWeights exact_;
  ModelWeights weights_;
  std::map<std::string, Place> places_;
};

// The logits of a prompt by the processor, in float32.
Logits expected_logits(
    const ModelConfig& config, const WeightSource& source, const std::vector<TokenId>& tokens
) {
  ThreadPool pool(1);
  const CpuModelOptions options = {
      .dtype = DType::kFloat32,
      .kv_dtype = DType::kFloat32,
      .num_blocks = kLimits.num_blocks,
      .max_model_len = kLimits.max_model_len,
      .max_num_batched_tokens = kLimits.max_num_batched_tokens,
      .max_num_logits = kLimits.max_num_logits,
  };
  const Result<std::unique_ptr<CpuModel>> model = CpuModel::load(config, source, options, pool);
  CHECK(model.ok(), model.error().message);
  return run_prompt(**model, tokens, 12, 0);
}

// The largest |found - expected| / max |expected| of any position.
double largest_error(const Logits& found, const Logits& expected, size_t vocab) {
  CHECK(found.size() == expected.size(), "logits of the same positions");
  double largest = 0.0;
  for (size_t begin = 0; begin < found.size(); begin += vocab) {
    double difference = 0.0;
    double scale = 0.0;
    for (size_t i = begin; i < begin + vocab; ++i) {
      const double exact = std::bit_cast<float>(expected[i]);
      difference = std::max(difference, std::abs(std::bit_cast<float>(found[i]) - exact));
      scale = std::max(scale, std::abs(exact));
    }
    largest = std::max(largest, difference / scale);
  }
  return largest;
}

class QuantizedOnDevice : public testing::TestWithParam<std::tuple<ModelFamily, QuantizedFormat>> {
 protected:
  ModelConfig config() const { return tiny_config(std::get<0>(GetParam())); }
  QuantizedFormat format() const { return std::get<1>(GetParam()); }
  std::unique_ptr<CudaModel> load(const ModelConfig& config, Launch launch) const {
    return load_cuda(config, launch, kSeed, format());
  }
};

INSTANTIATE_TEST_SUITE_P(
    ,
    QuantizedOnDevice,
    testing::Combine(
        testing::ValuesIn(kDenseFamilies),
        testing::Values(QuantizedFormat::kInt8, QuantizedFormat::kInt4)
    ),
    [](const auto& both) {
      const ModelFamily family = std::get<0>(both.param);
      return fmt::format("{}_{}", name_of(family), name_of(std::get<1>(both.param)));
    }
);

// Found: up to 0.83 %, nearly all of it the bfloat16 of what is multiplied.
constexpr double kTolerance = 2e-2;

TEST_P(QuantizedOnDevice, ComputesWithTheRoundedWeights) {
  const ModelConfig tiny = untied(config().family);
  const std::vector<TokenId> tokens = random_tokens(40, 7);
  const Logits found = run_prompt(*load(tiny, Launch::kKernels), tokens, 12, 0);
  const Logits expected = expected_logits(tiny, RoundedWeights(tiny, format()), tokens);
  EXPECT_LE(largest_error(found, expected, 103), kTolerance);
  // Not with those that were not rounded: int4's errors are far above the tolerance.
  if (format() == QuantizedFormat::kInt8) return;
  const TinyWeights exact(tiny, kSeed, DType::kBFloat16);
  EXPECT_GE(largest_error(found, expected_logits(tiny, exact, tokens), 103), 5e-2);
}

TEST_P(QuantizedOnDevice, GivesTheSameBitsHoweverTheWorkIsCutAndByGraphs) {
  const std::unique_ptr<CudaModel> model = load(config(), Launch::kKernels);
  const std::unique_ptr<CudaModel> graphs = load(config(), Launch::kGraphs);
  EXPECT_GT(graphs->num_graphs(), 5);
  const std::vector<TokenId> tokens = random_tokens(30, 2);
  const Logits whole = run_prompt(*model, tokens, 12, 0);
  EXPECT_EQ(run_prompt(*model, tokens, 5, 3), whole);
  EXPECT_EQ(run_prompt(*graphs, tokens, 1, 0), whole);
  EXPECT_EQ(run_prompt(*graphs, tokens, 1, 4), whole);
}

// A directory of `millrace quantize`.
TEST_P(QuantizedOnDevice, ReadsStoredWeights) {
  const ModelConfig whole = untied(config().family);
  const TinyWeights source(whole, kSeed, DType::kBFloat16);
  ThreadPool pool(1);
  const Result<ModelWeights> weights =
      load_weights(whole, source, {DType::kBFloat16, format()}, pool);
  ASSERT_TRUE(weights.ok()) << weights.error().message;
  const TestFolder directory;
  const std::string path = directory.path("model.safetensors");
  const std::vector<TensorToWrite> tensors =
      stored_tensors(whole, *weights, source, DType::kBFloat16);
  ASSERT_TRUE(write_safetensors(path, tensors).ok());

  const auto stored = open_safetensors_file(path);
  ASSERT_TRUE(stored.ok()) << stored.error().message;
  ModelConfig config = whole;
  config.stored_quantization = format();
  const Result<std::unique_ptr<CudaModel>> model =
      CudaModel::load(config, **stored, {.limits = kLimits, .use_graphs = false}, pool);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ((*model)->options().quantization, format());
  const std::vector<TokenId> tokens = random_tokens(30, 3);
  const Logits expected = run_prompt(*load(whole, Launch::kKernels), tokens, 12, 0);
  EXPECT_EQ(run_prompt(**model, tokens, 12, 0), expected);
}

TEST_P(QuantizedOnDevice, SaysWhatItTakes) {
  const std::unique_ptr<CudaModel> model = load(config(), Launch::kKernels);
  EXPECT_EQ(model->num_weight_bytes(), device_weight_bytes(config(), format()));
  EXPECT_EQ(
      model->num_weight_bytes() - model->num_step_weight_bytes(), num_weight_elements(103, 52) * 2
  );
  const size_t rotated = 128 * 128 * 2;  // 80 tokens and the intermediate size, in whole tiles
  EXPECT_EQ(
      CudaModel::workspace_bytes(config(), kLimits, format()),
      CudaModel::workspace_bytes(config(), kLimits, {}) + rotated
  );
}

TEST(QuantizedWeightsOnDevice, ComeWithBiasesInTheOrderOfPackedRows) {
  const ModelConfig config = with_all_biases();
  const std::vector<TokenId> tokens = random_tokens(20, 8);
  for (const QuantizedFormat format : {QuantizedFormat::kInt8, QuantizedFormat::kInt4}) {
    const auto model = load_cuda(config, Launch::kKernels, kSeed, format);
    EXPECT_EQ(model->num_weight_bytes(), device_weight_bytes(config, format));
    const Logits found = run_prompt(*model, tokens, 12, 0);
    const Logits expected = expected_logits(config, RoundedWeights(config, format), tokens);
    EXPECT_LE(largest_error(found, expected, 103), kTolerance) << name_of(format);
  }
}

// What fits is decided with the bytes of the format; a line says what runs.
TEST(QuantizedWeightsOnDevice, AreWhatARunnerWasAskedFor) {
  const ModelConfig config = untied(ModelFamily::kLlama);
  const TinyWeights source(config, kSeed, DType::kBFloat16);
  ThreadPool pool(1);
  CudaRunnerOptions options = {
      .limits = kLimits,
      .kv_cache_bytes = 1 << 20,
      .use_graphs = false,
      .quantization = QuantizedFormat::kInt4};
  const Result<CudaRunner> runner = load_cuda_runner(config, source, options, pool);
  ASSERT_TRUE(runner.ok()) << runner.error().message;
  EXPECT_THAT(
      runner->start_lines.front(), testing::HasSubstr("int4 weights and bfloat16 inputs on")
  );
  const auto model = load_cuda(config, Launch::kKernels, kSeed, QuantizedFormat::kInt4);
  EXPECT_EQ(runner->num_step_weight_bytes, model->num_step_weight_bytes());
  const std::vector<TokenId> tokens = random_tokens(20, 8);
  EXPECT_EQ(run_prompt(*runner->model, tokens, 12, 0), run_prompt(*model, tokens, 12, 0));

  ModelConfig stored = config;
  stored.stored_quantization = QuantizedFormat::kInt8;
  const Result<CudaRunner> refused = load_cuda_runner(stored, source, options, pool);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().where, "--quantization");
  EXPECT_EQ(refused.error().message, "the weights are stored as int8, not int4");
}

TEST(QuantizedWeightsOnDevice, TakeWhatTheFormatSays) {
  ModelConfig config = untied(ModelFamily::kLlama);
  config.hidden_size = 1024;
  config.intermediate_size = 4096;
  config.num_heads = 16;
  config.head_dim = 64;
  config.vocab_size = 32;
  const auto num_bytes = [&](std::optional<QuantizedFormat> format) {
    return static_cast<double>(device_weight_bytes(config, format));
  };
  // Group scales are 1/64 of int8 codes, row scales next to nothing.
  EXPECT_NEAR(num_bytes(QuantizedFormat::kInt8) / num_bytes({}), 0.51, 0.01);
  EXPECT_NEAR(num_bytes(QuantizedFormat::kInt4) / num_bytes({}), 0.26, 0.01);
}

TEST(QuantizedWeightsOnDevice, NameWhatDoesNotFit) {
  const ModelConfig config = untied(ModelFamily::kLlama);
  TinyWeights source(config, kSeed);
  source.mutable_tensors().pop_back();
  ThreadPool pool(1);
  const Result<std::unique_ptr<CudaModel>> model = CudaModel::load(
      config, source, {.limits = kLimits, .quantization = QuantizedFormat::kInt8}, pool
  );
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.error().message, testing::HasSubstr("is missing"));
}

}  // namespace
}  // namespace millrace::cuda
