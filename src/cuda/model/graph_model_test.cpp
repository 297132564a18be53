// Which steps of a model are graphs, and that they are the same steps.
#include <gtest/gtest.h>

#include "cuda/model/cuda_model_test_data.h"

namespace millrace::cuda {
namespace {

std::unique_ptr<CudaModel> load_with(
    const CudaModelOptions& options, const LoadProgress& progress = {}
) {
  const ModelConfig config = tiny_config(ModelFamily::kQwen3);
  ThreadPool pool(1);
  Result<std::unique_ptr<CudaModel>> model = CudaModel::load(
      config, TinyWeights(config, kSeed, DType::kBFloat16), options, pool, progress
  );
  CHECK(model.ok(), model.error().message);
  return *std::move(model);
}

// Logits of the last token of each sequence, after chunks of a prompt beside decodes of others:
// steps of 3 to 74 tokens.
Logits run_mixed_steps(CudaModel& model) {
  std::vector<std::vector<TokenId>> prompts;
  for (uint64_t i = 0; i < 3; ++i) prompts.push_back(random_tokens(150 + 20 * i, i));
  std::vector<TestSequence> sequences = make_sequences(model, prompts, 7);
  Logits bits;
  for (const int32_t chunk : {1, 40, 1, 13, 30, 2, 25, 1}) {
    const std::vector<TestChunk> chunks = {
        {&sequences[0], 1}, {&sequences[1], chunk}, {&sequences[2], chunk / 2 + 1}};
    ForwardBatch batch = make_batch(chunks, model.block_size());
    batch.logit_rows = {
        LogitRow::of_token(batch.cu_seqlens[1] - 1), LogitRow::of_token(batch.num_tokens() - 1)};
    append_bits(model.forward(batch), bits);
  }
  return bits;
}

TEST(GraphModel, DoesEveryStepWithTokensByAGraph) {
  const auto plain = load_with({.limits = kLimits, .use_graphs = false});
  const auto graphs = load_with({.limits = kLimits});
  EXPECT_EQ(run_mixed_steps(*graphs), run_mixed_steps(*plain));
  EXPECT_EQ(plain->num_graph_launches(), 0);
  EXPECT_EQ(graphs->num_graph_launches(), 8);

  ForwardBatch saved;
  saved.cu_seqlens = {0};
  saved.logit_rows = {LogitRow::of_slot(0)};
  graphs->forward(saved);
  EXPECT_EQ(graphs->num_graph_launches(), 8);
}

// More sequences than rows of logits: prompts that are nowhere near their ends.
TEST(GraphModel, DoesStepsOfTooManySequencesWithoutOne) {
  RunnerLimits limits = kLimits;
  limits.max_num_logits = 2;
  const auto plain = load_with({.limits = kLimits, .use_graphs = false});
  const auto graphs = load_with({.limits = limits});
  EXPECT_EQ(run_mixed_steps(*graphs), run_mixed_steps(*plain));
  EXPECT_EQ(graphs->num_graph_launches(), 0);
}

TEST(GraphModel, TellsHowManyOfTheGraphsItHas) {
  size_t num_calls = 0;
  size_t num_done = 0;
  size_t num_all = 0;
  const auto count = [&](size_t done, size_t all) {
    num_calls += all == num_all ? 1 : 0;
    num_done = done;
    num_all = all;
  };
  const auto graphs = load_with({.limits = kLimits}, count);
  EXPECT_EQ(num_done, graphs->num_graphs());
  EXPECT_EQ(num_all, graphs->num_graphs());
  EXPECT_GE(num_calls + 1, graphs->num_graphs());
}

TEST(GraphModel, MakesNoMoreGraphsThanThereIsMemoryFor) {
  const auto few = load_with({.limits = kLimits, .num_graph_bytes = 0});
  const auto all = load_with({.limits = kLimits});
  EXPECT_EQ(few->num_graphs(), GraphBuckets::for_decode(80).sizes().size());
  EXPECT_EQ(all->num_graphs(), few->num_graphs() + GraphBuckets::for_tokens(80).sizes().size());
  EXPECT_EQ(run_mixed_steps(*few), run_mixed_steps(*all));
  EXPECT_EQ(few->num_graph_launches(), 0);
}

}  // namespace
}  // namespace millrace::cuda
