#include "quantization/quantize_model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/quantized/quantized_test_data.h"
#include "quantization/feedback.h"
#include "quantization/quantization_test_data.h"
#include "quantization/smoothing.h"

namespace millrace {
namespace {

using Texts = std::vector<std::vector<TokenId>>;

QuantizeOptions options_for(QuantizedFormat format, const Texts& texts) {
  return {.format = format, .dtype = DType::kFloat32, .texts = texts, .on_progress = {}};
}

QuantizedModel quantized_model(
    const ModelConfig& config,
    const WeightSource& source,
    QuantizedFormat format,
    const Texts& texts,
    ThreadPool& pool
) {
  Result<QuantizedModel> model = quantize_model(config, source, options_for(format, texts), pool);
  CHECK(model.ok(), model.error().message);
  return *std::move(model);
}

// Everything that rounding makes, and the vectors that smoothing changes.
std::vector<std::vector<std::byte>> all_bytes(const ModelWeights& weights) {
  std::vector<std::vector<std::byte>> all;
  const auto add_vector = [&](const std::vector<float>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    all.emplace_back(bytes.begin(), bytes.end());
  };
  all.push_back(bytes_of(*weights.lm_head->quantized()));
  add_vector(weights.final_norm);
  for (const LayerWeights& layer : weights.layers) {
    for (const WeightMatrix* matrix :
         {&layer.qkv, &layer.attention_out, &layer.gate_up, &layer.down}) {
      all.push_back(bytes_of(*matrix->quantized()));
    }
    for (const auto* vector : {&layer.attention_norm, &layer.qkv_bias, &layer.gate_up_bias}) {
      add_vector(*vector);
    }
    add_vector(layer.mlp_norm);
  }
  return all;
}

std::vector<float> quantized_logits(
    QuantizedModel model,
    QuantizedFormat format,
    const std::vector<TokenId>& tokens,
    ThreadPool& pool
) {
  const auto runner =
      CpuModel::from_weights(model.config, std::move(model.weights), tiny_options(format), pool);
  CHECK(runner.ok(), runner.error().message);
  return logits_of(**runner, tokens);
}

TEST(QuantizeModel, AnswersMoreLikeTheModelThanRoundingToNearest) {
  ThreadPool pool(2);
  const Texts texts = {random_tokens(900, 1), random_tokens(300, 2)};
  const std::vector<TokenId> tokens = random_tokens(200, 3);
  for (const ModelConfig& config : tiny_configs()) {
    const UnevenWeights weights(config, 9);
    const std::vector<float> exact = logits_of(*load_tiny(config, weights, pool), tokens);
    for (const QuantizedFormat format : kQuantizedFormats) {
      const auto nearest = load_tiny(config, weights, pool, format);
      const double plain = relative_difference(logits_of(*nearest, tokens), exact);
      const double found = relative_difference(
          quantized_logits(
              quantized_model(config, weights, format, texts, pool), format, tokens, pool
          ),
          exact
      );
      EXPECT_LT(found, 0.85 * plain) << name_of(config.family) << ' ' << name_of(format);
      RecordProperty(
          std::string(name_of(config.family)) + std::string(name_of(format)),
          std::to_string(plain) + " " + std::to_string(found)
      );
    }
  }
}

TEST(QuantizeModel, MakesTheSameBitsWithAnyNumberOfThreads) {
  const Texts texts = {random_tokens(530, 1)};
  for (const ModelConfig& config : tiny_configs()) {
    const UnevenWeights weights(config, 9);
    for (const QuantizedFormat format : kQuantizedFormats) {
      ThreadPool one(1);
      ThreadPool two(2);
      EXPECT_EQ(
          all_bytes(quantized_model(config, weights, format, texts, one).weights),
          all_bytes(quantized_model(config, weights, format, texts, two).weights)
      ) << name_of(config.family)
        << ' ' << name_of(format);
    }
  }
}

// [num_rows, row length] of tensors of the same width, one below the other.
std::vector<float> stacked(const WeightSource& source, std::initializer_list<std::string> names) {
  std::vector<float> rows;
  for (const std::string& name : names) {
    const TensorInfo& tensor = *source.find(name);
    const size_t begin = rows.size();
    rows.resize(begin + static_cast<size_t>(tensor.num_rows() * tensor.row_length()));
    source.read_rows(tensor, 0, tensor.num_rows(), std::span(rows).subspan(begin));
  }
  return rows;
}

// Each panel `step` panels after the one before it is that of `rows`, rounded with `feedback`.
void expect_panels(
    const WeightMatrix& matrix,
    size_t first,
    size_t step,
    const std::vector<float>& rows,
    const ErrorFeedback& feedback
) {
  const QuantizedMatrix& found = *matrix.quantized();
  const size_t width = found.num_columns();
  QuantizedMatrix expected = *QuantizedMatrix::allocate(found.format(), rows.size() / width, width);
  for (size_t panel = 0; panel < expected.num_panels(); ++panel) {
    const auto rest = std::span(rows).subspan(panel * 16 * width);
    expected.pack_panel(panel, rest.first(std::min(rest.size(), 16 * width)), feedback);
    const size_t place = first + panel * step;
    ASSERT_LT(place, found.num_panels());
    EXPECT_TRUE(std::ranges::equal(found.panel(place), expected.panel(panel))) << "panel " << place;
  }
}

TEST(QuantizeModel, RoundsEachMatrixWithTheFeedbackOfItsOwnInputs) {
  ThreadPool pool(2);
  const Texts texts = {random_tokens(400, 1)};
  for (const ModelConfig& config : tiny_configs()) {
    const UnevenWeights weights(config, 9);
    const QuantizedModel model =
        quantized_model(config, weights, QuantizedFormat::kInt4, texts, pool);
    const InputMoments moments = moments_of(config, weights, texts[0], pool);
    const Smoothing smoothing = choose_smoothing(config, weights, moments, pool);
    const auto source = smoothed_source(config, weights, smoothing, DType::kFloat32);
    const auto expect_matrix = [&](const WeightMatrix& matrix,
                                   const MatrixPlace& place,
                                   const std::vector<float>& divisors,
                                   std::initializer_list<std::string> names) {
      const ErrorFeedback feedback = feedback_of(moments.at(place), divisors, pool);
      const bool is_paired = place.kind == MatrixKind::kGateUp;
      if (!is_paired) return expect_panels(matrix, 0, 1, stacked(*source, names), feedback);
      for (size_t i = 0; i < 2; ++i) {
        expect_panels(matrix, i, 2, stacked(*source, {names.begin()[i]}), feedback);
      }
    };
    for (size_t i = 0; i < model.weights.layers.size(); ++i) {
      SCOPED_TRACE(std::string(name_of(config.family)) + " layer " + std::to_string(i));
      const LayerWeights& layer = model.weights.layers[i];
      const LayerSmoothing& own = smoothing.layers[i];
      const std::string attention = "model.layers." + std::to_string(i) + ".self_attn.";
      const std::string mlp = "model.layers." + std::to_string(i) + ".mlp.";
      expect_matrix(
          layer.qkv,
          {MatrixKind::kQkv, i},
          own.qkv,
          {attention + "q_proj.weight", attention + "k_proj.weight", attention + "v_proj.weight"}
      );
      expect_matrix(
          layer.attention_out,
          {MatrixKind::kAttentionOut, i},
          spread_to_query_heads(config, own.value),
          {attention + "o_proj.weight"}
      );
      expect_matrix(
          layer.gate_up,
          {MatrixKind::kGateUp, i},
          own.gate_up,
          {mlp + "gate_proj.weight", mlp + "up_proj.weight"}
      );
      expect_matrix(layer.down, {MatrixKind::kDown, i}, own.down, {mlp + "down_proj.weight"});
    }
    expect_matrix(*model.weights.lm_head, {MatrixKind::kHead}, smoothing.head, {"lm_head.weight"});
  }
}

std::vector<TokenId> part_of(const std::vector<TokenId>& tokens, size_t begin, size_t end) {
  return {
      tokens.begin() + static_cast<ptrdiff_t>(begin), tokens.begin() + static_cast<ptrdiff_t>(end)};
}

TEST(QuantizeModel, CutsTextsThatAreTooLongAtOnce) {
  ThreadPool pool(2);
  const std::vector<TokenId> tokens = random_tokens(1030, 1);
  const std::vector<TokenId> other = random_tokens(20, 2);
  const QuantizedFormat format = QuantizedFormat::kInt8;
  ModelConfig config = tiny_configs()[0];
  const UnevenWeights weights(config, 9);
  const Texts whole = {{}, tokens, other};
  const Texts cut = {
      part_of(tokens, 0, 512), part_of(tokens, 512, 1024), part_of(tokens, 1024, 1030), other};
  const auto expected = all_bytes(quantized_model(config, weights, format, cut, pool).weights);
  EXPECT_EQ(all_bytes(quantized_model(config, weights, format, whole, pool).weights), expected);
  // Where they are cut does matter.
  const Texts elsewhere = {part_of(tokens, 0, 500), part_of(tokens, 500, 1030), other};
  EXPECT_NE(all_bytes(quantized_model(config, weights, format, elsewhere, pool).weights), expected);

  config.max_position_embeddings = 7;
  const Texts seven = {part_of(tokens, 0, 7), part_of(tokens, 7, 14), part_of(tokens, 14, 15)};
  const Texts fifteen = {part_of(tokens, 0, 15)};
  EXPECT_EQ(
      all_bytes(quantized_model(config, weights, format, fifteen, pool).weights),
      all_bytes(quantized_model(config, weights, format, seven, pool).weights)
  );
}

TEST(QuantizeModel, LearnsFromOneTokenAndFromManyTextsOfOne) {
  ThreadPool pool(2);
  const std::vector<TokenId> tokens = random_tokens(50, 3);
  for (const ModelConfig& config : tiny_configs()) {
    const UnevenWeights weights(config, 9);
    const std::vector<float> exact = logits_of(*load_tiny(config, weights, pool), tokens);
    for (const Texts& texts : {Texts{{42}}, Texts(600, {17})}) {
      const QuantizedFormat format = QuantizedFormat::kInt8;
      QuantizedModel model = quantized_model(config, weights, format, texts, pool);
      const std::vector<float> found = quantized_logits(std::move(model), format, tokens, pool);
      EXPECT_LT(relative_difference(found, exact), 0.5) << name_of(config.family);
    }
  }
}

TEST(QuantizeModel, GivesTheHeadAMatrixOfItsOwn) {
  ThreadPool pool(2);
  const ModelConfig config = tiny_configs()[1];
  ASSERT_TRUE(config.tie_word_embeddings);
  const UnevenWeights weights(config, 9);
  const Texts texts = {random_tokens(30, 1)};
  const QuantizedModel model =
      quantized_model(config, weights, QuantizedFormat::kInt4, texts, pool);
  EXPECT_FALSE(model.config.tie_word_embeddings);
  ASSERT_TRUE(model.weights.lm_head);
  EXPECT_EQ(model.weights.lm_head->quantized()->format(), QuantizedFormat::kInt6);
  EXPECT_EQ(model.weights.layers[1].down.quantized()->format(), QuantizedFormat::kInt4);
  EXPECT_NE(model.weights.embedding.packed(), nullptr);
}

TEST(QuantizeModel, TellsHowFarItIs) {
  ThreadPool pool(1);
  const ModelConfig config = tiny_configs()[2];
  const UnevenWeights weights(config, 9);
  const Texts texts = {random_tokens(600, 1)};
  QuantizeOptions options = options_for(QuantizedFormat::kInt8, texts);
  std::vector<std::string> phases;
  double last = 0.0;
  options.on_progress = [&](std::string_view phase, double fraction) {
    if (phases.empty() || phases.back() != phase) {
      phases.emplace_back(phase);
      last = 0.0;
    }
    EXPECT_TRUE(fraction >= last && fraction <= 1.0) << phase << ' ' << fraction;
    last = fraction;
  };
  ASSERT_TRUE(quantize_model(config, weights, options, pool));
  EXPECT_THAT(phases, testing::ElementsAre("loading", "calibrating", "rounding"));
  EXPECT_EQ(last, 1.0);
}

TEST(QuantizeModel, RefusesWhatCannotBeLoaded) {
  ThreadPool pool(1);
  const ModelConfig config = tiny_configs()[0];
  const Texts texts = {{1, 2, 3}};
  const QuantizeOptions options = options_for(QuantizedFormat::kInt8, texts);
  UnevenWeights missing(config, 1);
  std::erase_if(missing.mutable_tensors(), [](const TensorInfo& tensor) {
    return tensor.name == "model.layers.1.mlp.up_proj.weight";
  });
  const Result<QuantizedModel> model = quantize_model(config, missing, options, pool);
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, testing::HasSubstr("model.layers.1.mlp.up_proj.weight"));
  const UnevenWeights weights(tiny_mixture(), 1);
  EXPECT_EQ(
      quantize_model(tiny_mixture(), weights, options, pool).error(),
      unsupported("qwen2_moe models cannot be calibrated yet")
  );
}

// Weights of which one is not finite.
class BrokenWeights : public UnevenWeights {
 public:
  BrokenWeights(const ModelConfig& config, std::string name, int64_t row, float value)
      : UnevenWeights(config, 3), name_(std::move(name)), row_(row), value_(value) {}

  void read_rows(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, std::span<float> out
  ) const override {
    UnevenWeights::read_rows(tensor, row_begin, num_rows, out);
    const int64_t row = row_ - row_begin;
    if (tensor.name != name_ || row < 0 || row >= num_rows) return;
    out[static_cast<size_t>(row * tensor.row_length()) + 5] = value_;
  }

 private:
  std::string name_;
  int64_t row_;
  float value_;
};

// Rounding made numbers of what is none, and the model answered nonsense without a word; what is
// not rounded was written as it is.
TEST(QuantizeModel, RefusesToRoundWhatIsNotFinite) {
  const ModelConfig config = tiny_configs()[2];
  ThreadPool pool(3);
  struct Case {
    std::string name;
    int64_t row = 19;
  };
  const Case cases[] = {
      {"model.embed_tokens.weight"},
      {"model.layers.1.input_layernorm.weight", 0},
      {"model.layers.1.self_attn.k_proj.weight"},
      {"model.layers.1.self_attn.k_norm.weight", 0},
      {"model.layers.1.mlp.up_proj.weight"},
      {"model.layers.1.mlp.down_proj.weight"},
      {"model.norm.weight", 0}};
  for (const auto& [name, row] : cases) {
    for (const float value : {NAN, -INFINITY}) {
      const BrokenWeights broken(config, name, row, value);
      EXPECT_TRUE(load_weights(config, broken, {DType::kFloat32}, pool)) << "nothing is rounded";
      const Result<QuantizedModel> model =
          quantize_model(config, broken, options_for(QuantizedFormat::kInt8, {}), pool);
      ASSERT_FALSE(model);
      EXPECT_EQ(
          model.error(),
          invalid_argument(
              fmt::format("tensor '{}' holds a value that is not finite, in row {}", name, row),
              name
          )
      );
    }
  }
}

// Such inputs had no feedback, silently.
TEST(QuantizeModel, RefusesToLearnFromWhatIsNotFinite) {
  const ModelConfig config = tiny_configs()[2];
  ThreadPool pool(1);
  const BrokenWeights broken(config, "model.layers.1.mlp.down_proj.weight", 3, NAN);
  const Texts texts = {random_tokens(20, 1)};
  const Result<QuantizedModel> model =
      quantize_model(config, broken, options_for(QuantizedFormat::kInt8, texts), pool);
  ASSERT_FALSE(model);
  EXPECT_THAT(
      model.error().message,
      testing::StartsWith("calibration: squares of the inputs of qkv of layer 2 are not finite")
  );
}

// With experts and with a head that is the embedding's: what loading makes of them.
TEST(QuantizeModel, RoundsToNearestWithoutTexts) {
  ThreadPool pool(2);
  const ModelConfig config = tiny_mixture();
  const UnevenWeights source(config, 3);
  for (const QuantizedFormat format : kQuantizedFormats) {
    const QuantizedModel model = quantized_model(config, source, format, {}, pool);
    EXPECT_FALSE(model.config.tie_word_embeddings);
    const WeightFormat weights = {options_for(format, {}).dtype, format};
    const Result<ModelWeights> rounded = load_weights(config, source, weights, pool);
    ASSERT_TRUE(rounded) << rounded.error().message;
    const auto expect_equal = [](const WeightMatrix& found, const WeightMatrix& expected) {
      EXPECT_EQ(bytes_of(*found.quantized()), bytes_of(*expected.quantized()));
    };
    expect_equal(*model.weights.lm_head, *rounded->lm_head);
    expect_equal(model.weights.layers[0].experts->down, rounded->layers[0].experts->down);
    expect_equal(model.weights.layers[1].gate_up, rounded->layers[1].gate_up);
  }
}

}  // namespace
}  // namespace millrace
