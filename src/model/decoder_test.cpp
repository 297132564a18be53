// What an observer of the model's matrices is shown, and what quantized ones are given.
#include "model/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <tuple>

#include "model/cpu_model.h"
#include "model/input_rounding.h"
#include "model/model_test_data.h"

namespace millrace {
namespace {

struct Seen {
  MatrixPlace place;
  size_t num_rows;
  size_t num_columns;

  bool operator==(const Seen& other) const { return key() == other.key(); }
  std::tuple<MatrixKind, size_t, size_t, size_t> key() const {
    return {place.kind, place.layer, num_rows, num_columns};
  }
};

class Recorder : public InputObserver {
 public:
  void observe(const MatrixPlace& place, ConstRows x) override {
    seen.push_back({place, x.num_rows, x.num_columns});
    float largest = 0.0F;
    for (size_t row = 0; row < x.num_rows; ++row) {
      for (size_t i = 0; i < x.num_columns; ++i)
        largest = std::max(largest, std::abs(x.row(row)[i]));
    }
    EXPECT_GT(largest, 0.0F);
  }

  std::vector<Seen> seen;
};

std::vector<float> logits_of(CpuModel& model, const std::vector<TokenId>& tokens) {
  std::vector<TestSequence> sequences = make_sequences(model, {{tokens}}, 5);
  const TestChunk chunk = {sequences.data(), static_cast<int32_t>(tokens.size())};
  ForwardBatch batch = make_batch({{chunk}}, model.block_size());
  batch.logit_rows.resize(2);
  const std::span<const float> logits = model.forward(batch);
  return {logits.begin(), logits.end()};
}

TEST(InputObserver, SeesTheInputsOfEveryMatrixOnceAndChangesNothing) {
  ThreadPool pool(2);
  const std::vector<TokenId> tokens = {5, 100, 3, 3, 77};
  for (const ModelFamily family : kDenseFamilies) {
    const ModelConfig config = tiny_config(family);
    const CpuModelOptions options = {
        .dtype = DType::kFloat32,
        .kv_dtype = DType::kFloat32,
        .num_blocks = 4,
        .max_model_len = 64,
        .max_num_batched_tokens = 64,
        .max_num_logits = 64};
    const auto model = *CpuModel::load(config, TinyWeights(config, 1), options, pool);
    const std::vector<float> unobserved = logits_of(*model, tokens);
    Recorder recorder;
    model->set_observer(&recorder);
    const std::vector<float> observed = logits_of(*model, tokens);
    ASSERT_EQ(observed.size(), unobserved.size());
    EXPECT_EQ(std::memcmp(observed.data(), unobserved.data(), observed.size() * sizeof(float)), 0);

    const auto hidden = static_cast<size_t>(config.hidden_size);
    std::vector<Seen> expected = {{{MatrixKind::kHead, 0}, 2, hidden}};
    for (size_t i = 0; i < static_cast<size_t>(config.num_layers); ++i) {
      expected.push_back({{MatrixKind::kQkv, i}, 5, hidden});
      expected.push_back({{MatrixKind::kAttentionOut, i}, 5, static_cast<size_t>(config.q_size())});
      expected.push_back({{MatrixKind::kGateUp, i}, 5, hidden});
      expected.push_back({{MatrixKind::kDown, i}, 5, static_cast<size_t>(config.intermediate_size)}
      );
    }
    EXPECT_THAT(recorder.seen, testing::UnorderedElementsAreArray(expected));
    model->set_observer(nullptr);
    (void)logits_of(*model, tokens);
    EXPECT_EQ(recorder.seen.size(), expected.size());
  }
}

// A token's state is one number, and attention adds nothing: all inputs of a layer but those of
// `down` are, rotated, of one magnitude, which one term of 8 bits holds as well as two.
class OneNumberWeights : public TinyWeights {
 public:
  using TinyWeights::TinyWeights;

  void read_rows(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, std::span<float> out
  ) const override {
    TinyWeights::read_rows(tensor, row_begin, num_rows, out);
    const bool is_embedding = tensor.name.find("embed_tokens") != std::string::npos;
    const bool is_value = tensor.name.find("v_proj") != std::string::npos;
    if (is_embedding || is_value) std::ranges::fill(out, 0.0F);
    const auto length = static_cast<size_t>(tensor.row_length());
    for (size_t row = 0; is_embedding && row < static_cast<size_t>(num_rows); ++row) {
      out[row * length + (static_cast<size_t>(row_begin) + row) % length] = 1.0F;
    }
  }
};

class HeadInputs : public InputObserver {
 public:
  void observe(const MatrixPlace& place, ConstRows x) override {
    if (place.kind != MatrixKind::kHead) return;
    for (size_t row = 0; row < x.num_rows; ++row) {
      values.insert(values.end(), x.row(row), x.row(row) + x.num_columns);
    }
  }

  std::vector<float> values;
};

TEST(Decoder, RoundsInputsByMatrix) {
  const Quantization int8 = QuantizedFormat::kInt8;
  const Quantization int4 = QuantizedFormat::kInt4;
  const Quantization stored = Quantization::stored();
  for (const MatrixKind kind : {MatrixKind::kQkv, MatrixKind::kAttentionOut, MatrixKind::kGateUp}) {
    EXPECT_EQ(input_rounding(int8, kind), InputRounding::kTwoTerms);
    EXPECT_EQ(input_rounding(int4, kind), InputRounding::kRow);
    EXPECT_EQ(input_rounding(Quantization::w8a8(), kind), InputRounding::kGroups);
    EXPECT_EQ(input_rounding(stored, kind), InputRounding::kUnrotated);
  }
  EXPECT_EQ(input_rounding(int8, MatrixKind::kDown), InputRounding::kGroups);
  EXPECT_EQ(input_rounding(int8, MatrixKind::kHead), InputRounding::kTwoTerms);
  EXPECT_EQ(input_rounding(int4, MatrixKind::kDown), InputRounding::kRow);
  EXPECT_EQ(input_rounding(int4, MatrixKind::kHead), InputRounding::kRow);
  EXPECT_EQ(input_rounding(stored, MatrixKind::kDown), InputRounding::kUnrotated);
  EXPECT_EQ(input_rounding(stored, MatrixKind::kHead), InputRounding::kUnrotated);
}

TEST(Decoder, GivesTheInputsOfDownOneTerm) {
  ThreadPool pool(1);
  ModelConfig config = tiny_config(ModelFamily::kLlama);
  config.num_layers = 1;
  struct Outcome {
    std::vector<float> head_inputs;
    std::vector<float> logits;
  };
  const auto outcome_of = [&](const Quantization& quantization) {
    const CpuModelOptions options = {
        .dtype = DType::kFloat32,
        .quantization = quantization,
        .kv_dtype = DType::kFloat32,
        .num_blocks = 4,
        .max_model_len = 64,
        .max_num_batched_tokens = 64,
        .max_num_logits = 64,
        .isa = Isa::kReference};  // with AMX inputs are bfloat16
    const auto model = *CpuModel::load(config, OneNumberWeights(config, 1), options, pool);
    HeadInputs head;
    model->set_observer(&head);
    const std::vector<float> logits = logits_of(*model, {5, 100, 3, 3, 77});
    return Outcome{std::move(head.values), logits};
  };
  const Outcome int8 = outcome_of(QuantizedFormat::kInt8);
  const Outcome w8a8 = outcome_of(Quantization::w8a8());
  ASSERT_EQ(int8.head_inputs.size(), w8a8.head_inputs.size());
  for (size_t i = 0; i < w8a8.head_inputs.size(); ++i) {
    EXPECT_NEAR(int8.head_inputs[i], w8a8.head_inputs[i], 1e-6F) << "rounded in another order";
  }
  EXPECT_NE(int8.logits, w8a8.logits) << "the head's have two";
}

}  // namespace
}  // namespace millrace
