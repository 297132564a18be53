#include "quantization/smoothing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/test_data.h"
#include "quantization/quantization_test_data.h"

namespace millrace {
namespace {

std::vector<float> smoothed_logits(
    const ModelConfig& config,
    const WeightSource& source,
    const std::vector<TokenId>& tokens,
    ThreadPool& pool
) {
  const InputMoments moments = moments_of(config, source, random_tokens(300, 1), pool);
  const Smoothing smoothing = choose_smoothing(config, source, moments, pool);
  const auto smoothed = smoothed_source(config, source, smoothing, DType::kFloat32);
  return logits_of(*load_tiny(untied(config), *smoothed, pool), tokens);
}

TEST(Smoothing, ChangesNothingOfWhatTheModelComputes) {
  ThreadPool pool(2);
  const std::vector<TokenId> tokens = random_tokens(40, 2);
  for (const ModelConfig& config : tiny_configs()) {
    const UnevenWeights weights(config, 9);
    const std::vector<float> expected = logits_of(*load_tiny(config, weights, pool), tokens);
    const std::vector<float> found = smoothed_logits(config, weights, tokens, pool);
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_LT(relative_difference(found, expected), 1e-4) << name_of(config.family);
  }
}

// Sums of squares of the columns of some tensors of a layer.
std::vector<double> column_squares(
    const WeightSource& source, std::initializer_list<std::string> names
) {
  std::vector<double> sums;
  for (const std::string& name : names) {
    const TensorInfo& tensor = *source.find(name);
    const auto width = static_cast<size_t>(tensor.row_length());
    std::vector<float> rows(width * static_cast<size_t>(tensor.num_rows()));
    source.read_rows(tensor, 0, tensor.num_rows(), rows);
    sums.resize(width);
    for (size_t i = 0; i < rows.size(); ++i) {
      sums[i % width] += static_cast<double>(rows[i]) * static_cast<double>(rows[i]);
    }
  }
  return sums;
}

// Of the inputs of attention_out, those that one row of v makes.
std::vector<double> by_value_row(const ModelConfig& config, const std::vector<double>& values) {
  std::vector<double> sums(static_cast<size_t>(config.kv_size()));
  const auto head_dim = static_cast<size_t>(config.head_dim);
  const auto num_shared = static_cast<size_t>(config.num_heads / config.num_kv_heads);
  for (size_t head = 0; head < static_cast<size_t>(config.num_heads); ++head) {
    for (size_t i = 0; i < head_dim; ++i) {
      sums[head / num_shared * head_dim + i] += values[head * head_dim + i];
    }
  }
  return sums;
}

std::vector<double> squares_at(
    const InputMoments& moments, const MatrixPlace& place, int64_t num_inputs
) {
  std::vector<double> squares;
  for (size_t i = 0; i < static_cast<size_t>(num_inputs); ++i) {
    squares.push_back(static_cast<double>(moments.at(place).square(i)));
  }
  return squares;
}

// A matrix's inputs: sums of their squares, and of those of their weights before any smoothing.
struct Squares {
  std::vector<double> inputs;
  std::vector<double> weights;
};

// In the order of all_divisors().
std::vector<Squares> all_squares(
    const ModelConfig& config, const WeightSource& source, const InputMoments& moments
) {
  const bool is_tied = source.find("lm_head.weight") == nullptr;
  std::vector<Squares> all = {
      {squares_at(moments, {MatrixKind::kHead}, config.hidden_size),
       column_squares(source, {is_tied ? "model.embed_tokens.weight" : "lm_head.weight"})}};
  for (size_t i = 0; i < static_cast<size_t>(config.num_layers); ++i) {
    const std::string attention = "model.layers." + std::to_string(i) + ".self_attn.";
    const std::string mlp = "model.layers." + std::to_string(i) + ".mlp.";
    all.push_back(
        {squares_at(moments, {MatrixKind::kQkv, i}, config.hidden_size),
         column_squares(
             source,
             {attention + "q_proj.weight", attention + "k_proj.weight", attention + "v_proj.weight"}
         )}
    );
    const auto attended = squares_at(moments, {MatrixKind::kAttentionOut, i}, config.q_size());
    all.push_back(
        {by_value_row(config, attended),
         by_value_row(config, column_squares(source, {attention + "o_proj.weight"}))}
    );
    all.push_back(
        {squares_at(moments, {MatrixKind::kGateUp, i}, config.hidden_size),
         column_squares(source, {mlp + "gate_proj.weight", mlp + "up_proj.weight"})}
    );
    all.push_back(
        {squares_at(moments, {MatrixKind::kDown, i}, config.intermediate_size),
         column_squares(source, {mlp + "down_proj.weight"})}
    );
  }
  return all;
}

// How far the quotients of the two sums of each input are apart, the weights multiplied.
double spread(const Squares& squares, std::span<const float> divisors) {
  double least = std::numeric_limits<double>::infinity();
  double most = 0.0;
  for (size_t i = 0; i < divisors.size(); ++i) {
    const double factor = static_cast<double>(divisors[i]) * static_cast<double>(divisors[i]);
    least = std::min(least, squares.inputs[i] / (squares.weights[i] * factor));
    most = std::max(most, squares.inputs[i] / (squares.weights[i] * factor));
  }
  return most / least;
}

std::vector<const std::vector<float>*> all_divisors(const Smoothing& smoothing) {
  std::vector<const std::vector<float>*> all = {&smoothing.head};
  for (const LayerSmoothing& layer : smoothing.layers) {
    all.insert(all.end(), {&layer.qkv, &layer.value, &layer.gate_up, &layer.down});
  }
  return all;
}

// The product of an input's and its weights' squares is the model's own; their quotient is what
// smoothing chooses.
TEST(Smoothing, MakesInputsAndTheirWeightsEquallyUneven) {
  ThreadPool pool(2);
  for (const ModelConfig& config : tiny_configs()) {
    const UnevenWeights weights(config, 9);
    const std::vector<TokenId> tokens = random_tokens(300, 1);
    const InputMoments moments = moments_of(config, weights, tokens, pool);
    const Smoothing smoothing = choose_smoothing(config, weights, moments, pool);
    const auto smoothed = smoothed_source(config, weights, smoothing, DType::kFloat32);
    const InputMoments after = moments_of(untied(config), *smoothed, tokens, pool);
    const std::vector<Squares> plain = all_squares(config, weights, moments);
    const std::vector<Squares> divided = all_squares(config, weights, after);
    const std::vector<const std::vector<float>*> divisors = all_divisors(smoothing);
    ASSERT_EQ(divided.size(), divisors.size());
    for (size_t i = 0; i < divided.size(); ++i) {
      EXPECT_LT(spread(divided[i], *divisors[i]), 1.01) << name_of(config.family) << ' ' << i;
      const std::vector<float> ones(divisors[i]->size(), 1.0F);
      EXPECT_GT(spread(plain[i], ones), 4.0) << "the test's model is even where it should not be";
    }
  }
}

void expect_finite_divisors(const Smoothing& smoothing) {
  for (const std::vector<float>* divisors : all_divisors(smoothing)) {
    for (const float divisor : *divisors) {
      ASSERT_TRUE(std::isfinite(divisor) && divisor > 0.0F) << divisor;
    }
  }
}

TEST(Smoothing, DividesByOneOnAverage) {
  ThreadPool pool(2);
  const ModelConfig config = tiny_configs()[0];
  const UnevenWeights weights(config, 9);
  const InputMoments moments = moments_of(config, weights, random_tokens(300, 1), pool);
  const Smoothing smoothing = choose_smoothing(config, weights, moments, pool);
  ASSERT_EQ(smoothing.layers.size(), 3U);
  for (const std::vector<float>* divisors : all_divisors(smoothing)) {
    double sum = 0.0;
    for (const float divisor : *divisors) sum += std::log(static_cast<double>(divisor));
    EXPECT_NEAR(sum / static_cast<double>(divisors->size()), 0.0, 1e-5);
  }
}

// Inputs that are always zero, weights that are never used, and a layer that is given nothing.
class IdleWeights : public UnevenWeights {
 public:
  using UnevenWeights::UnevenWeights;

  void read_rows(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, std::span<float> out
  ) const override {
    UnevenWeights::read_rows(tensor, row_begin, num_rows, out);
    const auto width = static_cast<size_t>(tensor.row_length());
    const auto is = [&](std::string_view part) {
      return tensor.name.find(part) != tensor.name.npos;
    };
    if (is("layers.0.input_layernorm") || is("model.norm")) out[7] = 0.0F;
    if (is("layers.1.post_attention_layernorm")) std::ranges::fill(out, 0.0F);
    const bool is_idle = is("layers.2.self_attn.q_proj.weight") ||
                         is("layers.2.self_attn.k_proj.weight") ||
                         is("layers.2.self_attn.v_proj.weight");
    if (!is_idle) return;
    for (size_t i = 9; i < out.size(); i += width) out[i] = 0.0F;
  }
};

TEST(Smoothing, StaysFiniteWhereInputsOrWeightsAreNeverUsed) {
  ThreadPool pool(2);
  const std::vector<TokenId> tokens = random_tokens(40, 2);
  for (const ModelConfig& config : tiny_configs()) {
    const IdleWeights weights(config, 9);
    const InputMoments moments = moments_of(config, weights, random_tokens(300, 1), pool);
    EXPECT_EQ(moments.at({MatrixKind::kQkv, 0}).square(7), 0.0F);
    const Smoothing smoothing = choose_smoothing(config, weights, moments, pool);
    expect_finite_divisors(smoothing);
    // The other inputs of the matrix are smoothed all the same.
    const auto [least, most] = std::ranges::minmax(smoothing.layers[0].qkv);
    EXPECT_GT(most / least, 2.0F);
    EXPECT_EQ(bits_of(smoothing.layers[1].gate_up), bits_of(std::vector<float>(52, 1.0F)));
    const std::vector<float> expected = logits_of(*load_tiny(config, weights, pool), tokens);
    const std::vector<float> found = smoothed_logits(config, weights, tokens, pool);
    EXPECT_LT(relative_difference(found, expected), 1e-4) << name_of(config.family);
  }
}

// Squares that overflowed once made every divisor of their matrix NaN.
TEST(Smoothing, StaysFiniteWhereMomentsAreNoNumbers) {
  ThreadPool pool(2);
  const ModelConfig config = tiny_configs()[0];
  const UnevenWeights weights(config, 9);
  for (const float spoilt : {1e38F, std::numeric_limits<float>::quiet_NaN()}) {
    InputMoments moments = moments_of(config, weights, random_tokens(300, 1), pool);
    const Smoothing unspoilt = choose_smoothing(config, weights, moments, pool);
    std::vector<float> row(static_cast<size_t>(config.hidden_size), 1.0F);
    row[5] = spoilt;
    moments.observe({MatrixKind::kGateUp, 1}, {row.data(), 1, row.size(), row.size()});
    EXPECT_FALSE(std::isfinite(moments.at({MatrixKind::kGateUp, 1}).square(5)));
    const Smoothing smoothing = choose_smoothing(config, weights, moments, pool);
    expect_finite_divisors(smoothing);
    EXPECT_EQ(bits_of(smoothing.layers[0].gate_up), bits_of(unspoilt.layers[0].gate_up));
  }
}

TEST(Smoothing, HasTheSameBitsWithAnyNumberOfThreads) {
  ThreadPool one(1);
  ThreadPool three(3);
  const ModelConfig config = tiny_configs()[1];
  const UnevenWeights weights(config, 9);
  const InputMoments moments = moments_of(config, weights, random_tokens(300, 1), one);
  const Smoothing expected = choose_smoothing(config, weights, moments, one);
  const Smoothing found = choose_smoothing(config, weights, moments, three);
  const auto all_expected = all_divisors(expected);
  const auto all_found = all_divisors(found);
  ASSERT_EQ(all_found.size(), all_expected.size());
  for (size_t i = 0; i < all_found.size(); ++i) {
    EXPECT_EQ(bits_of(*all_found[i]), bits_of(*all_expected[i]));
  }
}

std::vector<float> read_row(const WeightSource& source, const std::string& name, int64_t row) {
  const TensorInfo& tensor = *source.find(name);
  std::vector<float> values(static_cast<size_t>(tensor.row_length()));
  source.read_rows(tensor, row, 1, values);
  return values;
}

TEST(Smoothing, RoundsMatricesAsTheModelHasThemAndNothingElse) {
  ThreadPool pool(2);
  const ModelConfig config = tiny_configs()[1];  // with a tied head
  const UnevenWeights weights(config, 9);
  const InputMoments moments = moments_of(config, weights, random_tokens(300, 1), pool);
  const Smoothing smoothing = choose_smoothing(config, weights, moments, pool);
  const auto smoothed = smoothed_source(config, weights, smoothing, DType::kBFloat16);
  const std::string embedding = "model.embed_tokens.weight";
  const std::vector<float> stored = read_row(weights, embedding, 17);
  const std::vector<float> kept = read_row(*smoothed, embedding, 17);
  const std::vector<float> head = read_row(*smoothed, "lm_head.weight", 17);
  const std::vector<float> norm = read_row(weights, "model.norm.weight", 0);
  const std::vector<float> divided = read_row(*smoothed, "model.norm.weight", 0);
  for (size_t i = 0; i < stored.size(); ++i) {
    const float rounded = to_float(to_bfloat16(stored[i]));
    EXPECT_EQ(kept[i], rounded);
    EXPECT_EQ(head[i], rounded * smoothing.head[i]);
    EXPECT_EQ(divided[i], norm[i] / smoothing.head[i]);
  }
}

TEST(Smoothing, SpreadsTheRowsOfVToTheQueryHeadsThatShareThem) {
  ModelConfig config;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 2;
  const std::vector<float> expected = {1, 2, 1, 2, 3, 4, 3, 4};
  EXPECT_EQ(spread_to_query_heads(config, {1, 2, 3, 4}), expected);
}

}  // namespace
}  // namespace millrace
