// The model runner on a device that does nothing until it is waited for: whatever reads too early,
// or writes over what a copy is still to read, gives other logits.
#include <gtest/gtest.h>

#include <bit>

#include "cuda/emulated/work.h"
#include "cuda/model/generation_test_data.h"

namespace millrace::cuda {
namespace {

// Logits of two sequences, prompts in chunks, then decodes, which are graphs; and of a saved state.
std::vector<uint32_t> run_two_sequences() {
  const ModelConfig config = tiny_config(ModelFamily::kQwen2);
  ThreadPool pool(1);
  const Result<std::unique_ptr<CudaModel>> model =
      CudaModel::load(config, TinyWeights(config, 3, DType::kBFloat16), {.limits = kLimits}, pool);
  CHECK(model.ok(), model.error().message);
  std::vector<std::vector<TokenId>> prompts(2, std::vector<TokenId>(40));
  for (size_t i = 0; i < 40; ++i) {
    prompts[0][i] = static_cast<TokenId>(i);
    prompts[1][i] = static_cast<TokenId>(100 - i);
  }
  std::vector<TestSequence> sequences = make_sequences(**model, prompts, 1);
  std::vector<uint32_t> bits;
  const auto forward = [&](const ForwardBatch& batch) {
    for (const float logit : (*model)->forward(batch)) {
      bits.push_back(std::bit_cast<uint32_t>(logit));
    }
  };
  const int32_t block_size = (*model)->block_size();
  forward(make_batch({{{&sequences[0], 30}, {&sequences[1], 5}}}, block_size));
  forward(make_batch({{{&sequences[1], 31}}}, block_size));
  for (int i = 0; i < 4; ++i) {
    ForwardBatch batch = make_batch({{{&sequences[0], 1}, {&sequences[1], 1}}}, block_size);
    batch.hidden_saves = {{.token = 1, .slot = 0}};
    forward(batch);
  }
  ForwardBatch saved;
  saved.cu_seqlens = {0};
  saved.logit_rows = {LogitRow::of_slot(0)};
  forward(saved);
  return bits;
}

TEST(LateModel, WaitsForAllThatItReads) {
  const std::vector<uint32_t> expected = run_two_sequences();
  const LateStreams late;
  EXPECT_EQ(run_two_sequences(), expected);
}

// Two steps deep: inputs, results and pending tokens of each, in every moment that a device may
// take.
std::vector<std::vector<SampledToken>> generate_ahead(Launch launch) {
  const std::unique_ptr<CudaModel> model = load_cuda(tiny_config(ModelFamily::kLlama), launch);
  const std::vector<TestRequest> requests = mixed_requests();
  return TestGeneration(*model, requests).run(Drive::kAhead);
}

TEST(LateModel, KeepsWhatAStepUnderWayStillReads) {
  for (const Launch launch : {Launch::kKernels, Launch::kGraphs}) {
    const auto expected = generate_ahead(launch);
    const LateStreams late;
    const auto found = generate_ahead(launch);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].size(), expected[i].size());
      for (size_t t = 0; t < found[i].size(); ++t) {
        EXPECT_EQ(found[i][t].id, expected[i][t].id) << i << ", " << t;
        EXPECT_EQ(found[i][t].logprobs, expected[i][t].logprobs) << i << ", " << t;
      }
    }
  }
}

}  // namespace
}  // namespace millrace::cuda
