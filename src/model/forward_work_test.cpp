// Sums that can be done by hand.
#include "model/forward_work.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

ModelConfig small_config() {
  ModelConfig config;
  config.hidden_size = 10;
  config.intermediate_size = 7;
  config.num_layers = 3;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 5;
  config.vocab_size = 100;
  return config;
}

constexpr ModelBytes kBytes = {.step_weights = 5000, .kv_per_token = 60};

// Sequences that each have `num_new` tokens after `num_before`, and logits of the last one.
ForwardBatch batch_of(int32_t num_sequences, int32_t num_before, int32_t num_new) {
  ForwardBatch batch;
  batch.cu_seqlens = {0};
  for (int32_t sequence = 0; sequence < num_sequences; ++sequence) {
    for (int32_t i = 0; i < num_new; ++i) {
      batch.token_ids.push_back(1);
      batch.positions.push_back(num_before + i);
    }
    batch.cu_seqlens.push_back(batch.num_tokens());
    batch.context_lens.push_back(num_before + num_new);
    batch.logit_rows.push_back(LogitRow::of_token(batch.num_tokens() - 1));
  }
  return batch;
}

TEST(ForwardWork, CountsADecodeStep) {
  const ForwardWork work = forward_work(small_config(), kBytes, {}, batch_of(2, 99, 1));
  EXPECT_EQ(work.weight_bytes, 5000.0) << "once for both sequences";
  EXPECT_EQ(work.kv_bytes, 2 * 100 * 60.0);
  // A layer: q and o 10 x 20 each, k and v 10 x 10 each, three matrices 10 x 7.
  EXPECT_EQ(work.matrix_operations, 2.0 * (3 * (400 + 200 + 210) * 2 + 10 * 100 * 2));
  EXPECT_EQ(work.attention_operations, 4.0 * 3 * 20 * (2 * 100));
}

TEST(ForwardWork, CountsEachTermOfInputs) {
  const ForwardBatch batch = batch_of(1, 0, 4);
  const auto operations = [&](const Quantization& quantization) {
    return forward_work(small_config(), kBytes, quantization, batch).matrix_operations;
  };
  // Of three tokens the last layer has k and v alone. Two terms of all, but one of the inputs of
  // down, 7 x 10.
  const double two_terms = 3 * (2 * 810 - 70) * 4 - 3 * (2 * 610 - 70) + 2 * 10 * 100;
  EXPECT_EQ(operations(QuantizedFormat::kInt8), 2.0 * two_terms);
  for (const Quantization one : {Quantization::w8a8(), Quantization(QuantizedFormat::kInt4)}) {
    EXPECT_EQ(operations(one), 2.0 * (3 * 810 * 4 - 3 * 610 + 10 * 100));
  }
}

TEST(ForwardWork, CountsCausalPairsOfAPrompt) {
  const ForwardWork work = forward_work(small_config(), kBytes, {}, batch_of(1, 0, 4));
  EXPECT_EQ(work.attention_operations, 4.0 * 20 * (2 * (1 + 2 + 3 + 4) + 4));
  EXPECT_EQ(work.kv_bytes, 4 * 60.0);
  EXPECT_EQ(work.matrix_operations, 2.0 * (2 * 810 * 4 + 200 * 4 + 610 + 10 * 100))
      << "one row of logits, and one token that the last layer finishes";
}

ModelConfig config_with_experts() {
  ModelConfig config = small_config();
  config.moe = MoeConfig{
      .num_experts = 8,
      .num_experts_per_token = 2,
      .expert_intermediate_size = 3,
      .shared_expert_intermediate_size = 4,
      .dense_layers = {0},
  };
  return config;
}

TEST(ForwardWork, CountsTheExpertsThatTokensPassThrough) {
  const ForwardWork work = forward_work(config_with_experts(), kBytes, {}, batch_of(2, 99, 1));
  // Two layers have a router 10 x 8, and matrices for two experts of 3 and a shared one of 4.
  const double of_experts = 10 * 8 + 3 * 10 * (2 * 3 + 4);
  EXPECT_EQ(work.matrix_operations, 2.0 * 2 * (3 * (400 + 200) + 210 + 2 * of_experts + 10 * 100));
}

TEST(ForwardWork, ExpectsAsManyExpertsAsRandomChoicesHit) {
  ModelBytes bytes = kBytes;
  bytes.expert_weights = 6400;
  const ModelConfig config = config_with_experts();
  EXPECT_EQ(weight_bytes_of_step(config, bytes, 1), 5000.0 + 6400.0 / 4) << "two of eight";
  EXPECT_EQ(weight_bytes_of_step(config, bytes, 2), 5000.0 + 6400.0 * 7 / 16);
  EXPECT_NEAR(weight_bytes_of_step(config, bytes, 1000), 11400.0, 1e-6);
  EXPECT_EQ(weight_bytes_of_step(small_config(), kBytes, 5), 5000.0) << "a dense model";
  EXPECT_EQ(forward_work(config, bytes, {}, batch_of(2, 9, 1)).weight_bytes, 5000.0 + 2800.0);
}

TEST(ForwardWork, OfChunksAddsUpToThatOfThePromptExceptForWhatEachPassReads) {
  ForwardBatch first = batch_of(1, 0, 3);
  first.logit_rows.clear();
  ForwardWork chunks = forward_work(small_config(), kBytes, {}, first);
  chunks += forward_work(small_config(), kBytes, {}, batch_of(1, 3, 5));
  const ForwardWork whole = forward_work(small_config(), kBytes, {}, batch_of(1, 0, 8));
  EXPECT_EQ(chunks.attention_operations, whole.attention_operations);
  EXPECT_EQ(chunks.matrix_operations, whole.matrix_operations);
  EXPECT_EQ(chunks.weight_bytes, 2 * whole.weight_bytes);
  EXPECT_EQ(chunks.kv_bytes, whole.kv_bytes + 3 * 60.0);
  EXPECT_EQ(chunks.bytes(), chunks.weight_bytes + chunks.kv_bytes);
  EXPECT_EQ(whole.operations(), whole.matrix_operations + whole.attention_operations);
}

}  // namespace
}  // namespace millrace
