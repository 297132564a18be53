// The model as a device computes it, by the emulator: against the CPU model on the same weights,
// and against itself, the same bits however the work is cut.
#include "cuda/model/cuda_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cuda/kernels/operand_tiles.h"
#include "cuda/model/cuda_model_test_data.h"
#include "model/model_goldens.h"

namespace millrace::cuda {
namespace {

constexpr const char* kGoldens = MILLRACE_SOURCE_DIR "/tests/golden/models";

// transformers' own bfloat16 on the same weights; it rounds at other places.
TEST(CudaModel, ComputesWhatTransformersDoes) {
  for (const Golden& golden : read_goldens(kGoldens)) {
    if (golden.config.moe) continue;
    const std::unique_ptr<CudaModel> model =
        load_cuda(golden.config, Launch::kKernels, golden.seed);
    for (const GoldenPrompt& prompt : golden.prompts) {
      const Logits logits = run_prompt(*model, prompt.token_ids, 40, 0);
      EXPECT_LE(largest_error(prompt, "bfloat16", logits), 2e-2) << golden.name;
    }
  }
}

class FamiliesOnDevice : public testing::TestWithParam<ModelFamily> {};

TEST_P(FamiliesOnDevice, GivesTheSameBitsHoweverTheWorkIsCut) {
  const std::unique_ptr<CudaModel> model = load_cuda(tiny_config(GetParam()), Launch::kKernels);
  const std::vector<TokenId> tokens = random_tokens(270, 2);
  const Logits whole = run_prompt(*model, tokens, 12, 0);
  EXPECT_EQ(run_prompt(*model, tokens, 1, 0), whole);
  EXPECT_EQ(run_prompt(*model, tokens, 5, 7), whole);
}

TEST_P(FamiliesOnDevice, GivesTheSameBitsByGraphs) {
  const std::unique_ptr<CudaModel> model = load_cuda(tiny_config(GetParam()), Launch::kKernels);
  const std::unique_ptr<CudaModel> graphs = load_cuda(tiny_config(GetParam()), Launch::kGraphs);
  EXPECT_EQ(model->num_graphs(), 0);
  EXPECT_GT(graphs->num_graphs(), 5);
  const std::vector<TokenId> tokens = random_tokens(30, 3);
  const Logits expected = run_prompt(*model, tokens, 12, 0);
  for (const size_t num_neighbours : {0, 4}) {
    EXPECT_EQ(run_prompt(*graphs, tokens, 1, num_neighbours), expected) << num_neighbours;
  }
  EXPECT_EQ(run_prompt(*graphs, tokens, 12, 3), expected);
}

INSTANTIATE_TEST_SUITE_P(
    ,
    FamiliesOnDevice,
    testing::ValuesIn(kDenseFamilies),
    [](const auto& family) { return std::string(name_of(family.param)); }
);

// A prompt, its last hidden state saved, then logits of the saved state alone.
TEST(CudaModel, KeepsHiddenStates) {
  const std::unique_ptr<CudaModel> model =
      load_cuda(tiny_config(ModelFamily::kLlama), Launch::kGraphs);
  const std::vector<std::vector<TokenId>> prompts = {random_tokens(20, 4)};
  std::vector<TestSequence> sequences = make_sequences(*model, prompts, 1);
  ForwardBatch batch = make_batch({{{&sequences[0], 20}}}, model->block_size());
  batch.logit_rows = {LogitRow::of_token(19)};
  batch.hidden_saves = {{.token = 19, .slot = 2}, {.token = 3, .slot = 0}};
  Logits expected;
  append_bits(model->forward(batch), expected);

  ForwardBatch saved;
  saved.cu_seqlens = {0};
  saved.logit_rows = {LogitRow::of_slot(0), LogitRow::of_slot(2)};
  const std::span<const float> logits = model->forward(saved);
  Logits found;
  append_bits(logits.subspan(static_cast<size_t>(model->vocab_size())), found);
  EXPECT_EQ(found, expected);
}

// A sequence that goes on from a copy of another's blocks, also in a step that is a graph.
TEST(CudaModel, GoesOnFromCopiedBlocks) {
  for (const Launch launch : {Launch::kKernels, Launch::kGraphs}) {
    const std::unique_ptr<CudaModel> model = load_cuda(tiny_config(ModelFamily::kQwen2), launch);
    const std::vector<TokenId> tokens = random_tokens(21, 6);
    const Logits expected = run_prompt(*model, tokens, 21, 0);

    TestSequence first = {.tokens = tokens, .num_computed = 0, .blocks = {7, 3}};
    model->forward(make_batch({{{&first, 20}}}, model->block_size()));
    TestSequence second = {.tokens = tokens, .num_computed = 20, .blocks = {11, 40}};
    ForwardBatch batch = make_batch({{{&second, 1}}}, model->block_size());
    batch.block_copies = {{7, 5}, {3, 40}, {5, 11}};
    Logits found;
    append_bits(model->forward(batch), found);
    const auto vocab = static_cast<ptrdiff_t>(model->vocab_size());
    EXPECT_EQ(found, Logits(expected.end() - vocab, expected.end()));
  }
}

std::string refusal(const ModelConfig& config, const CudaModelOptions& options) {
  ThreadPool pool(1);
  const Result<std::unique_ptr<CudaModel>> model =
      CudaModel::load(config, TinyWeights(config, kSeed), options, pool);
  return model.ok() ? "" : model.error().message;
}

TEST(CudaModel, RefusesWhatItCannotRun) {
  const ModelConfig config = tiny_config(ModelFamily::kLlama);
  ModelConfig wide = config;
  wide.head_dim = 300;
  EXPECT_THAT(refusal(wide, {.limits = kLimits}), testing::HasSubstr("head_dim is 300"));
  ModelConfig experts = config;
  experts.family = ModelFamily::kQwen3Moe;
  experts.moe.emplace();
  EXPECT_EQ(
      refusal(experts, {.limits = kLimits}), "qwen3_moe models cannot be run on a device yet"
  );
  ModelConfig stored = config;
  stored.stored_quantization = QuantizedFormat::kInt8;
  EXPECT_THAT(
      refusal(stored, {.limits = kLimits, .quantization = QuantizedFormat::kInt4}),
      testing::HasSubstr("stored as int8, not int4")
  );
  RunnerLimits limits = kLimits;
  limits.block_size = 12;
  EXPECT_THAT(refusal(config, {.limits = limits}), testing::HasSubstr("multiple of 16"));
  limits = kLimits;
  limits.max_num_logits = 0;
  EXPECT_THAT(refusal(config, {.limits = limits}), testing::HasSubstr("max_num_logits"));
  EXPECT_THAT(
      refusal(config, {.limits = kLimits, .device = 7}), testing::HasSubstr("no CUDA device")
  );
}

TEST(CudaModel, SaysWhatItTakes) {
  const ModelConfig config = tiny_config(ModelFamily::kQwen2);
  const std::unique_ptr<CudaModel> model = load_cuda(config, Launch::kKernels);
  EXPECT_EQ(model->num_weight_bytes(), device_weight_bytes(config, {}));
  EXPECT_EQ(model->num_step_weight_bytes(), model->num_weight_bytes());  // a tied head is read
  const std::unique_ptr<CudaModel> untied =
      load_cuda(tiny_config(ModelFamily::kLlama), Launch::kKernels);
  EXPECT_EQ(
      untied->num_weight_bytes() - untied->num_step_weight_bytes(), num_weight_elements(103, 52) * 2
  );
}

}  // namespace
}  // namespace millrace::cuda
