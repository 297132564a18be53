#include "cuda/model/step_outputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cuda/kernels/device_array.h"
#include "cuda/stream.h"
#include "sampling/draw.h"
#include "sampling/draw_test_data.h"

namespace millrace::cuda {
namespace {

constexpr size_t kVocab = 150;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Steps of logits alone, from rows that the test gives.
class Steps {
 public:
  explicit Steps(size_t num_rows_max)
      : stream_(*Stream::create()),
        inputs_(*StepInputs::allocate(
            {.num_logits = num_rows_max,
             .num_draws = num_rows_max,
             .num_logprob_rows = num_rows_max},
            0,
            1
        )),
        outputs_(*StepOutputs::allocate({.vocab_size = kVocab, .num_rows_max = num_rows_max})) {}

  StepOutputs& outputs() { return outputs_; }

  void collect(
      const std::vector<std::vector<float>>& rows,
      const std::vector<std::optional<DrawParams>>& draws
  ) {
    ForwardBatch batch;
    batch.cu_seqlens = {0};
    batch.draws = draws;
    std::vector<float> logits;
    for (const std::vector<float>& row : rows) {
      batch.logit_rows.push_back(LogitRow::of_slot(0));
      logits.insert(logits.end(), row.begin(), row.end());
    }
    const DeviceArray<float> device(logits);
    const StepView view = inputs_.send(stream_.handle(), batch, {}, shape_of(batch, 1));
    outputs_.collect(stream_.handle(), batch, view, device.data());
    stream_.wait();
  }

 private:
  Stream stream_;
  StepInputs inputs_;
  StepOutputs outputs_;
};

std::vector<std::vector<float>> some_rows(size_t count) {
  std::vector<std::vector<float>> rows;
  for (size_t i = 0; i < count; ++i) rows.push_back(draw_scores(DrawShape::kSpread, kVocab, i));
  return rows;
}

TEST(StepOutputs, GivesWholeRowsWhereNothingIsDrawn) {
  const auto rows = some_rows(6);
  const DrawParams draw = {};
  Steps steps(6);
  steps.collect(rows, {std::nullopt, draw, std::nullopt, std::nullopt, draw, std::nullopt});
  const StepResult result = steps.outputs().wait();
  std::vector<float> expected;
  for (const size_t i : {0U, 2U, 3U, 5U})
    expected.insert(expected.end(), rows[i].begin(), rows[i].end());
  EXPECT_EQ(std::vector<float>(result.logits.begin(), result.logits.end()), expected);
  ASSERT_EQ(result.drawn.size(), 2);
  EXPECT_EQ(result.drawn[0]->id, best_token(rows[1]));
  EXPECT_EQ(result.drawn[1]->id, best_token(rows[4]));
}

TEST(StepOutputs, ListsTheHostsLogprobsInItsOrder) {
  const auto rows = some_rows(5);
  const std::vector<std::optional<int32_t>> wanted = {3, {}, 0, 64, 1};
  std::vector<std::optional<DrawParams>> draws;
  for (size_t i = 0; i < rows.size(); ++i) {
    draws.push_back(DrawParams{
        .temperature = 1.5F, .unit = random_unit(4, i), .logprobs = wanted[i]});
  }
  Steps steps(5);
  steps.collect(rows, draws);
  const StepResult result = steps.outputs().wait();
  Sampler sampler;
  for (size_t i = 0; i < rows.size(); ++i) {
    const SampledToken& found = *result.drawn[i];
    EXPECT_EQ(found.id, chosen_token(rows[i], *draws[i]));
    const std::vector<TokenLogprob> expected =
        wanted[i] ? sampler.logprobs(rows[i], found.id, *wanted[i]) : std::vector<TokenLogprob>{};
    ASSERT_EQ(found.logprobs.size(), expected.size()) << i;
    for (size_t n = 0; n < expected.size(); ++n) {
      EXPECT_EQ(found.logprobs[n].id, expected[n].id);
      EXPECT_NEAR(found.logprobs[n].logprob, expected[n].logprob, 1e-5);
    }
  }
}

// Those behind it have their own logprobs all the same.
TEST(StepOutputs, SaysWhichRowsHaveNoAnswer) {
  auto rows = some_rows(3);
  rows[1][17] = kNan;
  Steps steps(3);
  const DrawParams draw = {.logprobs = 2};
  steps.collect(rows, {draw, draw, draw});
  const StepResult result = steps.outputs().wait();
  EXPECT_FALSE(result.drawn[1].has_value());
  for (const size_t i : {0U, 2U}) {
    const std::vector<TokenLogprob> expected = Sampler().logprobs(rows[i], best_token(rows[i]), 2);
    ASSERT_EQ(result.drawn[i]->logprobs.size(), 2);
    EXPECT_EQ(result.drawn[i]->logprobs[1].id, expected[1].id);
    EXPECT_NEAR(result.drawn[i]->logprobs[1].logprob, expected[1].logprob, 1e-5);
  }
}

// The results of a step stay while the next one's are made.
TEST(StepOutputs, KeepsTwoStepsApart) {
  const auto rows = some_rows(4);
  Steps steps(2);
  steps.collect({rows[0], rows[1]}, {DrawParams{}, std::nullopt});
  steps.collect({rows[2], rows[3]}, {std::nullopt, DrawParams{}});
  const StepResult first = steps.outputs().wait();
  const StepResult second = steps.outputs().wait();
  EXPECT_EQ(first.drawn[0]->id, best_token(rows[0]));
  EXPECT_THAT(first.logits, testing::ElementsAreArray(rows[1]));
  EXPECT_EQ(second.drawn[0]->id, best_token(rows[3]));
  EXPECT_THAT(second.logits, testing::ElementsAreArray(rows[2]));
}

TEST(StepOutputs, NamesTheDrawsOfTheLastStep) {
  Steps steps(3);
  steps.collect(some_rows(3), {DrawParams{}, std::nullopt, DrawParams{}});
  const std::vector<PendingToken> pending = {{.token = 9, .row = 2}, {.token = 4, .row = 0}};
  const std::vector<TokenOfDraw> tokens = steps.outputs().draws_of(pending);
  ASSERT_EQ(tokens.size(), 2);
  EXPECT_EQ(tokens[0].token, 9);
  EXPECT_EQ(tokens[0].draw, 1);
  EXPECT_EQ(tokens[1].token, 4);
  EXPECT_EQ(tokens[1].draw, 0);
}

}  // namespace
}  // namespace millrace::cuda
