#include "server/cuda_options.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

LocalModelOptions some_options() {
  LocalModelOptions options;
  options.engine.max_num_batched_tokens = 2048;
  options.engine.max_logit_rows = 64;
  options.gpu_memory_utilization = 0.5;
  options.kv_cache_bytes = 1 << 20;
  return options;
}

TEST(CudaOptions, TakeTheLimitsOfTheEngine) {
  LocalModelOptions options = some_options();
  options.dtype = DType::kBFloat16;
  options.enforce_eager = true;
  const Result<cuda::CudaRunnerOptions> cuda = cuda_options_of(options, 4096);
  ASSERT_TRUE(cuda.ok()) << cuda.error().message;
  EXPECT_EQ(cuda->limits.max_model_len, 4096);
  EXPECT_EQ(cuda->limits.max_num_batched_tokens, 2048);
  EXPECT_EQ(cuda->limits.max_num_logits, 64);
  EXPECT_EQ(cuda->gpu_memory_utilization, 0.5);
  EXPECT_EQ(cuda->kv_cache_bytes, 1 << 20);
  EXPECT_FALSE(cuda->use_graphs);
}

TEST(CudaOptions, RefuseWhatNoKernelIsFor) {
  LocalModelOptions options = some_options();
  options.dtype = DType::kFloat32;
  EXPECT_EQ(cuda_options_of(options, 64).error().where, "--dtype");
  options = some_options();
  options.kv_dtype = DType::kFloat16;
  EXPECT_EQ(cuda_options_of(options, 64).error().where, "--kv-cache-dtype");
}

TEST(CudaOptions, TakeTheWeightsOfAQuantization) {
  LocalModelOptions options = some_options();
  EXPECT_EQ(cuda_options_of(options, 64)->quantization, std::nullopt);
  options.quantization = QuantizedFormat::kInt8;
  EXPECT_EQ(cuda_options_of(options, 64)->quantization, QuantizedFormat::kInt8);
  options.quantization = Quantization::w8a8();
  EXPECT_EQ(cuda_options_of(options, 64)->quantization, QuantizedFormat::kInt8);
  options.quantization = QuantizedFormat::kInt4;
  EXPECT_EQ(cuda_options_of(options, 64)->quantization, QuantizedFormat::kInt4);
  options.quantization = Quantization::stored();
  EXPECT_EQ(cuda_options_of(options, 64).error().where, "--quantization");
}

}  // namespace
}  // namespace millrace
