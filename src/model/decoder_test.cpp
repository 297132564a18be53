// What an observer of the model's matrices is shown.
#include "model/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <tuple>

#include "model/cpu_model.h"
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

}  // namespace
}  // namespace millrace
