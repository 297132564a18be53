// A model that ranks on emulated devices share, beside the same model on one. Ranks are processes,
// forked before any thread is started.
#include <gtest/gtest.h>

#include <bit>
#include <string>

#include "cuda/emulated/group_communicator.h"
#include "cuda/model/cuda_model_test_data.h"
#include "model/shard.h"
#include "model/tensor_parallel.h"

namespace millrace::cuda {
namespace {

struct Case {
  ModelConfig config;
  Launch launch;
  std::optional<QuantizedFormat> quantization;
};

std::unique_ptr<CudaModel> load_part(const Case& test, Communicator& communicator) {
  const ModelShard shard = {.rank = communicator.rank(), .world_size = communicator.world_size()};
  const TinyWeights whole(test.config, kSeed, DType::kBFloat16);
  const auto weights = *ShardedWeights::make(test.config, shard, whole);
  ThreadPool pool(1);
  return *CudaModel::load(
      *shard_config(test.config, shard),
      *weights,
      {.limits = kLimits,
       .use_graphs = test.launch == Launch::kGraphs,
       .quantization = test.quantization,
       .communicator = &communicator},
      pool
  );
}

// A prompt in chunks and token by token, alone, so that there are graphs, and between neighbours.
Logits run(ModelRunner& model) {
  const std::vector<TokenId> tokens = random_tokens(40, 2);
  Logits logits = run_prompt(model, tokens, 1, 0);
  const Logits among_others = run_prompt(model, tokens, 5, 2);
  EXPECT_EQ(among_others, logits);
  return logits;
}

Logits run_together(const Case& test, int32_t world_size) {
  const auto group = *ProcessGroup::fork(world_size, [&](ProcessGroup& self) {
    GroupCommunicator communicator(self);
    const auto part = load_part(test, communicator);
    follow_batches(*part, self);
    return EXIT_SUCCESS;
  });
  GroupCommunicator communicator(*group);
  Logits logits;
  {
    TensorParallelRunner runner(load_part(test, communicator), *group);
    logits = run(runner);
  }
  const Result<void> done = group->wait_for_others();
  EXPECT_TRUE(done) << done.error().message;
  return logits;
}

std::vector<float> floats_of(const Logits& bits) {
  std::vector<float> values;
  for (const uint32_t value : bits) values.push_back(std::bit_cast<float>(value));
  return values;
}

double largest_error(const Logits& found, const Logits& expected, size_t vocab) {
  const std::vector<float> all = floats_of(found);
  const std::vector<float> all_expected = floats_of(expected);
  double largest = 0.0;
  for (size_t row = 0; row < all.size(); row += vocab) {
    const auto row_of = [&](std::span<const float> rows) { return rows.subspan(row, vocab); };
    largest = std::max(largest, row_error(row_of(all), row_of(all_expected)));
  }
  return largest;
}

// With biases on all matrices that a family has them on.
ModelConfig config_of(ModelFamily family) {
  ModelConfig config = tiny_config(family);
  config.num_heads = 8;
  config.attention_out_bias = family == ModelFamily::kLlama;
  config.mlp_bias = family == ModelFamily::kLlama;
  return config;
}

class TensorParallelOnDevice : public testing::TestWithParam<ModelFamily> {};

// K and V, and what matrices multiply, are rounded to bfloat16: sums in another order come out on
// the other side now and then. int8: o and down are rounded in the groups of a part.
TEST_P(TensorParallelOnDevice, GivesTheLogitsOfOneRank) {
  for (const Launch launch : {Launch::kKernels, Launch::kGraphs}) {
    for (const std::optional<QuantizedFormat> format :
         {std::optional<QuantizedFormat>(), std::optional(QuantizedFormat::kInt8)}) {
      const Case test = {config_of(GetParam()), launch, format};
      const auto alone = load_cuda(test.config, launch, kSeed, format);
      const Logits expected = run(*alone);
      const auto vocab = static_cast<size_t>(test.config.vocab_size);
      for (const int32_t world_size : {2, 4}) {
        const Logits found = run_together(test, world_size);
        ASSERT_EQ(found.size(), expected.size());
        EXPECT_LE(largest_error(found, expected, vocab), format ? 3e-2 : 2e-2) << world_size;
      }
    }
  }
}

TEST_P(TensorParallelOnDevice, GivesTheBitsOfAModelAloneWithOneRank) {
  for (const Launch launch : {Launch::kKernels, Launch::kGraphs}) {
    const ModelConfig config = config_of(GetParam());
    const Logits expected = run(*load_cuda(config, launch));
    const auto communicator = *join_communicator({});
    EXPECT_EQ(run(*load_part({config, launch, {}}, *communicator)), expected);
  }
}

TEST_P(TensorParallelOnDevice, WaitsForAllThatItReads) {
  const Case test = {config_of(GetParam()), Launch::kGraphs, {}};
  const Logits expected = run_together(test, 2);
  const LateStreams late;
  EXPECT_EQ(run_together(test, 2), expected);
}

INSTANTIATE_TEST_SUITE_P(
    ,
    TensorParallelOnDevice,
    testing::ValuesIn(kDenseFamilies),
    [](const auto& family) { return std::string(name_of(family.param)); }
);

}  // namespace
}  // namespace millrace::cuda
