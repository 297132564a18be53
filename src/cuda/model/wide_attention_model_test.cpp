// Steps whose attention has wide tiles (attention_wide.h) beside those that have none: the same
// logits.
#include <gtest/gtest.h>

#include "cuda/kernels/attention_wide.h"
#include "cuda/model/cuda_model_test_data.h"
#include "cuda/model/device_workspace.h"

namespace millrace::cuda {
namespace {

// Heads that the device has a kernel for, in groups that do not divide a tile.
ModelConfig config_of_wide_heads() {
  ModelConfig config = tiny_config(ModelFamily::kQwen2);
  config.num_layers = 2;
  config.num_heads = 28;
  config.num_kv_heads = 2;
  config.head_dim = 64;
  return config;
}

// Whether so many tokens of a sequence make more tiles than steps without wide ones have.
bool are_wide(const ModelConfig& config, int32_t num_tokens) {
  const std::vector<int32_t> cu_seqlens = {0, num_tokens};
  const auto group = static_cast<size_t>(config.num_heads / config.num_kv_heads);
  return num_attention_tiles(cu_seqlens, group) > DeviceWorkspace::kSplitTilesMax;
}

// Logits of the last eight tokens of a prompt, `chunk` tokens of which come at a time, before a
// neighbour's decodes, which see more than its first tokens do.
Logits run_in_chunks(CudaModel& model, int32_t chunk) {
  constexpr int32_t kLast = 8;
  const std::vector<std::vector<TokenId>> prompts = {random_tokens(150, 1), random_tokens(80, 2)};
  std::vector<TestSequence> sequences = make_sequences(model, prompts, 7);
  TestSequence& own = sequences[0];
  model.forward(make_batch({{{&sequences[1], 60}}}, model.block_size()));
  Logits bits;
  while (own.num_left() > 0) {
    const int32_t num_before = own.num_left() - kLast;
    const int32_t count = num_before > 0 ? std::min(chunk, num_before) : kLast;
    const ForwardBatch batch =
        make_batch({{{&own, count}, {&sequences[1], 1}}}, model.block_size());
    const std::span<const float> logits = model.forward(batch);
    const auto num_wanted = static_cast<size_t>(kLast) * static_cast<size_t>(model.vocab_size());
    if (num_before <= 0) append_bits(logits.first(num_wanted), bits);
  }
  return bits;
}

TEST(WideAttentionModel, SaysTheSameInWideTilesAndInOthers) {
  constexpr int32_t kFew = 20;
  constexpr int32_t kMany = 76;
  const ModelConfig config = config_of_wide_heads();
  ASSERT_TRUE(is_for_attention_wide(static_cast<size_t>(config.head_dim)));
  ASSERT_TRUE(are_wide(config, kMany));
  ASSERT_FALSE(are_wide(config, 2 * kFew)) << "room for the neighbour";
  for (const Launch launch : {Launch::kKernels, Launch::kGraphs}) {
    const std::unique_ptr<CudaModel> model = load_cuda(config, launch);
    const Logits expected = run_in_chunks(*model, kFew);
    EXPECT_EQ(run_in_chunks(*model, kMany), expected);
  }
}

}  // namespace
}  // namespace millrace::cuda
