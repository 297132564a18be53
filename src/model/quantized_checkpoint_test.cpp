// A checkpoint that GPTQ has quantized, opened as any other, is the model of its weights' values,
// and nearly so where its codes are multiplied.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "base/test_folder.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/quantized/quantized_weights.h"
#include "checkpoint/safetensors.h"
#include "model/coded_matrices.h"
#include "model/gptq_test_file.h"

namespace millrace {
namespace {

using namespace testing_files;

struct Opened {
  Checkpoint checkpoint;
  ModelConfig config;
};

Opened open_file(const TestFolder& directory, const GptqFile& file) {
  directory.write("config.json", kGptqConfig);
  EXPECT_TRUE(file.write(directory.path("model.safetensors")));
  Result<Checkpoint> checkpoint = open_checkpoint(directory.path());
  CHECK(checkpoint.ok(), checkpoint.error().message);
  Result<ModelConfig> config = parse_model_config(checkpoint->config);
  CHECK(config.ok(), config.error().message);
  return {*std::move(checkpoint), *std::move(config)};
}

TEST(QuantizedCheckpoint, IsTheModelOfItsValues) {
  const ModelConfig config = tiny_config(ModelFamily::kQwen2);
  for (const GroupOrder order : {GroupOrder::kAny, GroupOrder::kNeighbours}) {
    const TestFolder directory;
    const GptqFile file(config, order);
    const Opened opened = open_file(directory, file);
    EXPECT_EQ(logits_of(opened.config, *opened.checkpoint.weights), logits_of(config, file));
  }
}

TEST(QuantizedCheckpoint, MayBeAMixtureOfExperts) {
  const ModelConfig config = tiny_mixture();
  const TestFolder directory;
  const GptqFile file(config, GroupOrder::kNeighbours);
  ASSERT_TRUE(file.write(directory.path("model.safetensors")));
  auto stored = open_safetensors_file(directory.path("model.safetensors"));
  ASSERT_TRUE(stored) << stored.error().message;
  const auto weights = plain_weights(
      *std::move(stored), {.method = QuantizationMethod::kGptq, .group_size = kGptqGroup}
  );
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_EQ(logits_of(config, **weights), logits_of(config, file));
  const Result<CodedMatrices> coded = CodedMatrices::find(config, **weights);
  ASSERT_TRUE(coded) << coded.error().message;
  EXPECT_EQ(coded->others(DType::kFloat32), "");
}

// The head, which is rounded to 8 bits, makes nearly all of the difference.
TEST(QuantizedCheckpoint, IsNearlyThatModelAsUint4) {
  const ModelConfig config = tiny_config(ModelFamily::kQwen2);
  const TestFolder directory;
  const GptqFile file(config, GroupOrder::kNeighbours);
  const Opened opened = open_file(directory, file);
  const auto coded = CodedMatrices::find(opened.config, *opened.checkpoint.weights);
  ASSERT_TRUE(coded) << coded.error().message;
  EXPECT_EQ(coded->names(), "uint4");
  const std::vector<float> exact = logits_of(config, file);
  const std::vector<float> found =
      logits_of(opened.config, *opened.checkpoint.weights, Quantization::stored());
  double error = 0.0;
  double square = 0.0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const auto difference = static_cast<double>(found[i] - exact[i]);
    error += difference * difference;
    square += static_cast<double>(exact[i]) * static_cast<double>(exact[i]);
  }
  EXPECT_LT(std::sqrt(error / square), 0.006);
}

// Of these matrices `down` alone has more than one group.
TEST(QuantizedCheckpoint, HasNoCodesWhereGroupsAreInAnyOrder) {
  const TestFolder directory;
  const GptqFile file(tiny_config(ModelFamily::kQwen2), GroupOrder::kAny);
  const Opened opened = open_file(directory, file);
  const auto coded = CodedMatrices::find(opened.config, *opened.checkpoint.weights);
  ASSERT_TRUE(coded) << coded.error().message;
  EXPECT_EQ(
      coded->others(DType::kFloat16), "3 of 12 matrices are kept as float16, not as they are stored"
  );
}

}  // namespace
}  // namespace millrace
