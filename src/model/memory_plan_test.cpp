#include "model/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/dummy.h"
#include "kernels/packed_bfloat16.h"
#include "model/cpu_model.h"
#include "model/weight_names.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing::Not;

ModelConfig small_config() {
  ModelConfig config;
  config.hidden_size = 8;
  config.intermediate_size = 20;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 4;
  config.vocab_size = 30;
  config.max_position_embeddings = 100;
  config.attention_bias = true;
  config.qk_norm = true;
  return config;
}

MemoryPlanOptions small_options() {
  return {
      .weight_dtype = DType::kFloat16,
      .kv_dtype = DType::kFloat16,
      .block_size = 16,
      .max_num_batched_tokens = 10,
      .max_num_seqs = 3,
      .available_bytes = 1 << 20,
  };
}

TEST(MemoryPlan, CountsWeightsInPanelsOfSixteenRows) {
  const Result<MemoryPlan> plan = plan_memory(small_config(), small_options());
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->weights.embedding, 32 * 8 * 2);
  EXPECT_EQ(plan->weights.lm_head, 32 * 8 * 2);
  // q, k and v [16 + 8 + 8, 8] as one, o [8, 16] as 16 rows; a bias of 32 floats.
  EXPECT_EQ(plan->weights.attention, 2 * (2 * (32 * 8 + 16 * 16) + 4 * 32));
  // gate and up [20, 8] as 32 rows, down [8, 20] as 16 rows.
  EXPECT_EQ(plan->weights.mlp, 2 * 2 * (2 * 32 * 8 + 16 * 20));
  EXPECT_EQ(plan->weights.norms, 4 * (2 * (8 + 8 + 4 + 4) + 8));
  EXPECT_EQ(plan->weights.experts, 0);
  EXPECT_EQ(plan->num_parameters, num_parameters(small_config()));
}

TEST(MemoryPlan, CountsPanelsOfBFloat16AsThisProcessorHasThem) {
  MemoryPlanOptions options = small_options();
  options.weight_dtype = DType::kBFloat16;
  const Result<MemoryPlan> plan = plan_memory(small_config(), options);
  ASSERT_TRUE(plan) << plan.error().message;
  // Panels of 16 rows: a table of 64 bytes and 192 bytes for each 8 inputs, or 256 bytes for those;
  // 8 for an exception.
  const bool is_whole = best_bfloat16_panels() == BFloat16Panels::kWhole;
  const auto panel = [&](int64_t num_blocks) {
    return is_whole ? num_blocks * (256 + 8) : 64 + num_blocks * (192 + 8);
  };
  EXPECT_EQ(plan->weights.lm_head, 2 * panel(1));
  EXPECT_EQ(plan->weights.mlp, 2 * (4 * panel(1) + 1 * panel(3)));
}

TEST(MemoryPlan, StoresTiedEmbeddingsOnce) {
  ModelConfig config = small_config();
  config.tie_word_embeddings = true;
  const Result<MemoryPlan> plan = plan_memory(config, small_options());
  EXPECT_EQ(plan->weights.embedding, 32 * 8 * 2);
  EXPECT_EQ(plan->weights.lm_head, 0);
}

TEST(MemoryPlan, CountsEachScratchBuffer) {
  const Result<MemoryPlan> plan = plan_memory(small_config(), small_options());
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->activations.hidden, 10 * 8 * 4);
  EXPECT_EQ(plan->activations.qkv, 10 * (16 + 16) * 4);
  EXPECT_EQ(plan->activations.attention, 10 * 16 * 4);
  EXPECT_EQ(plan->activations.mlp, 10 * 20 * 4);
  // One thread's tile of 12 tokens x 2 heads: q of 16 each (it has 4, and AMX reads 32 halves), and
  // 2 + 4 floats of results.
  EXPECT_EQ(plan->activations.scores, 12 * 2 * (16 + 6) * 4);
  EXPECT_EQ(plan->activations.router, 0);
  EXPECT_EQ(plan->activations.logits, 3 * (30 + 8) * 4);
  EXPECT_EQ(plan->activations.rope, 100 * 4 * 4);
}

TEST(MemoryPlan, IsWhatTheModelTakes) {
  ThreadPool threads(2);
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    ModelConfig config = small_config();
    config.attention_bias = false;
    config.intermediate_size = 21;  // odd: bfloat16 keeps pairs
    const Result<std::unique_ptr<WeightSource>> weights =
        make_dummy_weights(expected_tensors(config), 1);
    ASSERT_TRUE(weights);
    CpuModelOptions model{.dtype = dtype, .kv_dtype = dtype, .num_blocks = 7};
    model.num_hidden_slots = 7;
    model.max_model_len = 100;
    model.max_num_batched_tokens = 10;
    model.max_num_logits = 3;
    const auto loaded = CpuModel::load(config, **weights, model, threads);
    ASSERT_TRUE(loaded) << loaded.error().message;
    MemoryPlanOptions options = small_options();
    options.weight_dtype = dtype;
    options.kv_dtype = dtype;
    options.num_threads = 2;
    const Result<MemoryPlan> plan = plan_memory(config, options);
    ASSERT_TRUE(plan);
    EXPECT_EQ(
        plan->weights.total() - plan->weights.norms,
        static_cast<int64_t>((*loaded)->num_weight_bytes())
    );
    EXPECT_EQ(
        plan->activations.total() - plan->activations.rope,
        static_cast<int64_t>(CpuModel::workspace_bytes(config, model, 2).total())
    );
    EXPECT_EQ(7 * plan->kv_bytes_per_block, static_cast<int64_t>((*loaded)->num_kv_bytes()));
    EXPECT_EQ(
        7 * plan->hidden_bytes_per_block, static_cast<int64_t>((*loaded)->num_saved_hidden_bytes())
    );
  }
}

TEST(MemoryPlan, IsWhatAQuantizedModelAllocates) {
  ThreadPool threads(1);
  for (const bool is_tied : {false, true}) {
    for (const Quantization& format :
         {Quantization(QuantizedFormat::kInt8),
          Quantization(QuantizedFormat::kInt4),
          Quantization::stored()}) {
      ModelConfig config = small_config();
      config.attention_bias = false;
      config.intermediate_size = 70;
      config.tie_word_embeddings = is_tied;
      const auto weights = make_dummy_weights(expected_tensors(config), 1);
      ASSERT_TRUE(weights);
      CpuModelOptions model{.dtype = DType::kFloat16, .quantization = format, .num_blocks = 1};
      model.max_model_len = 100;
      model.max_num_batched_tokens = 10;
      model.max_num_logits = 3;
      const auto loaded = CpuModel::load(config, **weights, model, threads);
      ASSERT_TRUE(loaded) << loaded.error().message;
      MemoryPlanOptions options = small_options();
      options.quantization = format;
      const Result<MemoryPlan> plan = plan_memory(config, options);
      ASSERT_TRUE(plan);
      EXPECT_EQ(plan->weights.embedding, 32 * 8 * 2);
      // Two panels of one group: 16 x 64 bytes, or as many times six bits, and 16 scales, 16 floats
      // for the rows, and padding.
      const bool is_int4 = format == Quantization(QuantizedFormat::kInt4);
      EXPECT_EQ(plan->weights.lm_head, 2 * ((is_int4 ? 768 : 1024) + 16 + 64 + 48));
      EXPECT_EQ(
          plan->weights.total() - plan->weights.norms,
          static_cast<int64_t>((*loaded)->num_weight_bytes())
      );
      EXPECT_EQ(
          plan->activations.total() - plan->activations.rope,
          static_cast<int64_t>(CpuModel::workspace_bytes(config, model, 1).total())
      );
    }
  }
}

TEST(MemoryPlan, FillsTheRestWithBlocks) {
  MemoryPlanOptions options = small_options();
  const Result<MemoryPlan> empty = plan_memory(small_config(), options);
  const int64_t fixed = empty->weights.total() + empty->activations.total();
  EXPECT_EQ(empty->kv_bytes_per_token, 2 * 2 * 8 * 2);
  EXPECT_EQ(empty->kv_bytes_per_block, 16 * empty->kv_bytes_per_token);
  EXPECT_EQ(empty->hidden_bytes_per_block, 8 * 4);
  const int64_t block_bytes = empty->bytes_per_block();
  EXPECT_EQ(block_bytes, 16 * 2 * 2 * 8 * 2 + 8 * 4);
  options.available_bytes = fixed + 15 * block_bytes - 1;
  Result<MemoryPlan> plan = plan_memory(small_config(), options);
  EXPECT_EQ(plan->num_blocks, 14);
  EXPECT_EQ(plan->missing_bytes, 0);
  ASSERT_EQ(plan->capacities.size(), 1U);
  EXPECT_EQ(plan->capacities[0].num_tokens, 100);
  EXPECT_EQ(plan->capacities[0].num_sequences, 2) << "100 tokens take 7 blocks";

  options.available_bytes = fixed + 6 * block_bytes;
  plan = plan_memory(small_config(), options);
  EXPECT_EQ(plan->num_blocks, 6);
  EXPECT_EQ(plan->missing_bytes, block_bytes);
  options.available_bytes = 0;
  plan = plan_memory(small_config(), options);
  EXPECT_EQ(plan->num_blocks, 0);
  EXPECT_EQ(plan->missing_bytes, fixed + 7 * block_bytes);
}

TEST(MemoryPlan, PlansTheLargestPublicModels) {
  for (const std::string name : {"Qwen2-72B", "Qwen2-57B-A14B"}) {
    const Result<Checkpoint> checkpoint =
        open_checkpoint(MILLRACE_SOURCE_DIR "/configs/" + name, {.with_weights = false});
    ASSERT_TRUE(checkpoint);
    const Result<ModelConfig> config = parse_model_config(checkpoint->config);
    ASSERT_TRUE(config);
    MemoryPlanOptions options;
    options.max_model_len = 1 << 20;
    options.max_num_batched_tokens = 1 << 20;
    options.available_bytes = int64_t{4} << 40;
    const Result<MemoryPlan> plan = plan_memory(*config, options);
    ASSERT_TRUE(plan) << plan.error().message;
    const bool is_whole = best_bfloat16_panels() == BFloat16Panels::kWhole;
    EXPECT_NEAR(
        static_cast<double>(plan->weights.total()),
        (is_whole ? 16.5 : 12.5) / 8 * static_cast<double>(num_parameters(*config)),
        1e-2 * static_cast<double>(plan->weights.total())
    );
    EXPECT_GT(plan->num_blocks, 0);
    EXPECT_EQ(plan->capacities.back().num_tokens, 1 << 20);
    EXPECT_THAT(format_plan(*plan), HasSubstr("sequences of  1048576 tokens"));
  }
}

TEST(MemoryPlan, CountsExperts) {
  ModelConfig config = small_config();
  config.moe = MoeConfig{
      .num_experts = 4,
      .num_experts_per_token = 2,
      .expert_intermediate_size = 16,
      .shared_expert_intermediate_size = 24,
      .dense_layers = {0},
  };
  const Result<MemoryPlan> plan = plan_memory(config, small_options());
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->weights.mlp, 2 * (2 * 32 * 8 + 16 * 20)) << "one dense layer";
  EXPECT_EQ(plan->weights.experts, 2 * (4 * (2 * 16 * 8 + 16 * 16) + 2 * 32 * 8 + 16 * 24));
  EXPECT_EQ(plan->weights.router, 2 * 16 * 8) << "with the shared expert's gate";
  EXPECT_EQ(plan->activations.mlp, 10 * 32 * 4) << "two experts of 16";
  EXPECT_EQ(plan->activations.experts, 10 * 2 * config.hidden_size * 4);
  const int64_t of_experts = 4 * (4 + static_cast<int64_t>(sizeof(RowGroup)));
  EXPECT_EQ(plan->activations.router, 10 * (5 + 2 * 3) * 4 + of_experts);
}

TEST(MemoryPlan, NamesTheOptionThatIsOutOfRange) {
  const auto error_of = [](auto change) {
    MemoryPlanOptions options = small_options();
    change(options);
    const Result<MemoryPlan> plan = plan_memory(small_config(), options);
    return plan ? std::string("no error") : plan.error().where;
  };
  EXPECT_EQ(error_of([](auto& o) { o.block_size = 0; }), "block_size");
  EXPECT_EQ(error_of([](auto& o) { o.max_num_seqs = 0; }), "max_num_seqs");
  EXPECT_EQ(error_of([](auto& o) { o.max_num_batched_tokens = -1; }), "max_num_batched_tokens");
  EXPECT_EQ(error_of([](auto& o) { o.max_model_len = int64_t{1} << 40; }), "max_model_len");
  EXPECT_EQ(error_of([](auto& o) { o.available_bytes = -1; }), "available_bytes");
}

TEST(MemoryPlan, SaysInWhichFormatsWeightsWouldFit) {
  const auto error_of = [](int64_t available, std::optional<Quantization> quantization) {
    ModelConfig config = small_config();
    config.hidden_size = 1024;
    config.intermediate_size = 4096;
    MemoryPlanOptions options = small_options();
    options.available_bytes = available;
    options.quantization = quantization;
    const Result<MemoryPlan> plan = plan_memory(config, options);
    CHECK(plan.ok(), plan.error().message);
    const Result<void> fits = check_weights_fit(config, *plan);
    return fits ? "" : fits.error().message;
  };
  constexpr int64_t kMiB = 1 << 20;
  EXPECT_EQ(error_of(64 * kMiB, {}), "");
  EXPECT_EQ(
      error_of(30 * kMiB, {}),
      "the model takes 48.58 MiB for weights and scratch, and 30.00 MiB are free; --quantization "
      "int8 takes 25.13 MiB, int4 takes 13.03 MiB"
  );
  EXPECT_THAT(error_of(18 * kMiB, {}), HasSubstr("; --quantization int4 takes 1"));
  EXPECT_THAT(error_of(18 * kMiB, {}), Not(HasSubstr("int8")));
  EXPECT_THAT(error_of(kMiB, {}), testing::EndsWith("1.00 MiB are free"));
  EXPECT_THAT(error_of(18 * kMiB, QuantizedFormat::kInt8), testing::EndsWith("18.00 MiB are free"));
}

}  // namespace
}  // namespace millrace
