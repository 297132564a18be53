// Steps that draw their tokens on the device, given before the step before has ended, against steps
// that end one by one and the host's sampler.
#include <gtest/gtest.h>

#include "cuda/model/generation_test_data.h"

namespace millrace::cuda {
namespace {

using Answers = std::vector<std::vector<SampledToken>>;

Answers generate(Launch launch, Drive drive, const std::vector<TestRequest>& requests) {
  const std::unique_ptr<CudaModel> model = load_cuda(tiny_config(ModelFamily::kQwen2), launch);
  TestGeneration generation(*model, requests);
  Answers answers = generation.run(drive);
  EXPECT_EQ(generation.num_pending() > 0, drive == Drive::kAhead);
  return answers;
}

// Tokens are equal; logprobs are made of sums in another order.
void expect_same(const Answers& found, const Answers& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].size(), expected[i].size()) << i;
    for (size_t t = 0; t < found[i].size(); ++t) {
      ASSERT_EQ(found[i][t].id, expected[i][t].id) << i << ", " << t;
      const std::vector<TokenLogprob>& logprobs = found[i][t].logprobs;
      ASSERT_EQ(logprobs.size(), expected[i][t].logprobs.size()) << i << ", " << t;
      for (size_t n = 0; n < logprobs.size(); ++n) {
        EXPECT_EQ(logprobs[n].id, expected[i][t].logprobs[n].id);
        EXPECT_NEAR(logprobs[n].logprob, expected[i][t].logprobs[n].logprob, 1e-5);
      }
    }
  }
}

TEST(DrawingModel, GivesTheHostsTokensTwoStepsDeep) {
  const std::vector<TestRequest> requests = mixed_requests();
  const Answers expected = generate(Launch::kKernels, Drive::kStepByStep, requests);
  for (const Launch launch : {Launch::kKernels, Launch::kGraphs}) {
    expect_same(generate(launch, Drive::kAhead, requests), expected);
  }
}

// All of them decode at once: every step after the first is a graph, with pending tokens in it.
TEST(DrawingModel, FillsPendingTokensBeforeGraphs) {
  std::vector<TestRequest> requests;
  for (size_t i = 0; i < 5; ++i) {
    requests.push_back({
        .prompt = random_tokens(7, i),
        .params = {.temperature = i % 2 == 0 ? 0.0F : 1.0F, .max_tokens = 20},
        .seed = i,
    });
  }
  const Answers expected = generate(Launch::kKernels, Drive::kStepByStep, requests);
  expect_same(generate(Launch::kGraphs, Drive::kAhead, requests), expected);
}

ForwardBatch one_token(TestSequence& sequence, const ModelRunner& model) {
  return make_batch({{{&sequence, 1}}}, model.block_size());
}

TEST(DrawingModelDeathTest, RefusesWhatNobodyCanKnow) {
  const std::unique_ptr<CudaModel> model =
      load_cuda(tiny_config(ModelFamily::kQwen2), Launch::kKernels);
  std::vector<std::vector<TokenId>> prompts = {random_tokens(20, 4)};
  prompts[0][1] = kPendingToken;
  TestSequence sequence = make_sequences(*model, prompts, 1)[0];
  model->forward(one_token(sequence, *model));
  ForwardBatch batch = one_token(sequence, *model);
  EXPECT_DEATH(model->launch(batch), "somebody draws each token");
  batch.pending = {{.token = 0, .row = 0}};
  EXPECT_DEATH(model->launch(batch), "a row that the batch before draws from");
  EXPECT_DEATH(model->forward(batch), "forward\\(\\) gives logits");
  batch.pending = {{.token = 0, .row = 1}};
  EXPECT_DEATH(model->launch(batch), "a row of the batch before");
}

TEST(DrawingModelDeathTest, TakesTwoStepsAtMost) {
  const std::unique_ptr<CudaModel> model =
      load_cuda(tiny_config(ModelFamily::kQwen2), Launch::kKernels);
  const std::vector<std::vector<TokenId>> prompts = {random_tokens(20, 4)};
  TestSequence sequence = make_sequences(*model, prompts, 1)[0];
  model->launch(one_token(sequence, *model));
  model->launch(one_token(sequence, *model));
  const ForwardBatch third = one_token(sequence, *model);
  EXPECT_DEATH(model->launch(third), "two steps are under way at most");
  EXPECT_DEATH(model->forward(third), "nothing else is under way");
  model->wait();
  model->wait();
  EXPECT_DEATH(model->wait(), "a step to wait for");
}

}  // namespace
}  // namespace millrace::cuda
