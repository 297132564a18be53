// What the CPU model does for a prefix cache: blocks that sequences share or copy, and hidden
// states that are kept. Logits are compared for equality with those of a sequence that has
// everything to itself.
#include <gtest/gtest.h>

#include <cstring>

#include "model/cpu_model.h"
#include "model/model_test_data.h"

namespace millrace {
namespace {

constexpr int32_t kBlockSize = 16;

CpuModelOptions reuse_options(DType dtype) {
  return {
      .dtype = dtype,
      .kv_dtype = dtype,
      .block_size = kBlockSize,
      .num_blocks = 40,
      .max_model_len = 200,
      .max_num_batched_tokens = 200,
      .max_num_logits = 200,
      .num_hidden_slots = 4,
  };
}

std::unique_ptr<CpuModel> load_tiny(const ModelConfig& config, DType dtype, ThreadPool& pool) {
  const TinyWeights weights(config, 11);
  Result<std::unique_ptr<CpuModel>> model =
      CpuModel::load(config, weights, reuse_options(dtype), pool);
  CHECK(model.ok(), model.error().message);
  return *std::move(model);
}

std::vector<TokenId> random_tokens(size_t count, uint64_t seed, const ModelRunner& model) {
  Rng rng(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& id : tokens) {
    id = static_cast<TokenId>(rng.below(static_cast<uint64_t>(model.vocab_size())));
  }
  return tokens;
}

using Bits = std::vector<uint32_t>;  // of rows of logits

Bits bits_of(std::span<const float> values) {
  Bits bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size_bytes());
  return bits;
}

Bits run(CpuModel& model, std::span<const TestChunk> chunks) {
  return bits_of(model.forward(make_batch(chunks, kBlockSize)));
}

// Rows [begin, begin + count) of logits.
Bits rows_of(const Bits& bits, const CpuModel& model, size_t begin, size_t count) {
  const auto vocab = static_cast<ptrdiff_t>(model.vocab_size());
  const auto first = bits.begin() + static_cast<ptrdiff_t>(begin) * vocab;
  return {first, first + static_cast<ptrdiff_t>(count) * vocab};
}

// The logits of all its tokens, computed at once in blocks of its own.
Bits run_alone(CpuModel& model, const std::vector<TokenId>& tokens) {
  std::vector<TestSequence> sequences = make_sequences(model, std::span(&tokens, 1), 99);
  const std::vector<TestChunk> chunks = {{sequences.data(), sequences[0].num_left()}};
  return run(model, chunks);
}

void for_each_model(auto&& check) {
  ThreadPool pool(2);
  for (const ModelFamily family : kDenseFamilies) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
      SCOPED_TRACE(testing::Message() << name_of(family) << ' ' << name_of(dtype));
      check(*load_tiny(tiny_config(family), dtype, pool));
    }
  }
}

// Two sequences begin with the same 43 tokens: two blocks are shared and the third, of which eleven
// tokens are alike, is copied in the batch in which both go on writing it.
TEST(CpuModelReuse, ASequenceGoesOnInACopyOfAnothersLastBlock) {
  for_each_model([](CpuModel& model) {
    std::vector<std::vector<TokenId>> prompts = {
        random_tokens(70, 1, model), random_tokens(65, 2, model)};
    std::copy_n(prompts[0].begin(), 43, prompts[1].begin());
    const Bits first_alone = run_alone(model, prompts[0]);
    const Bits second_alone = run_alone(model, prompts[1]);

    std::vector<TestSequence> sequences = make_sequences(model, prompts, 3);
    TestSequence& first = sequences[0];
    TestSequence& second = sequences[1];
    const std::vector<TestChunk> begin = {{&first, 46}};  // three tokens more than are shared
    EXPECT_EQ(run(model, begin), rows_of(first_alone, model, 0, 46));
    second.blocks[0] = first.blocks[0];
    second.blocks[1] = first.blocks[1];
    second.num_computed = 43;
    const std::vector<TestChunk> both = {{&second, 5}, {&first, 4}};
    ForwardBatch batch = make_batch(both, kBlockSize);
    batch.block_copies = {{.from = first.blocks[2], .to = second.blocks[2]}};
    const Bits together = bits_of(model.forward(batch));
    EXPECT_EQ(rows_of(together, model, 0, 5), rows_of(second_alone, model, 43, 5));
    EXPECT_EQ(rows_of(together, model, 5, 4), rows_of(first_alone, model, 46, 4));
    const std::vector<TestChunk> rest = {{&first, 20}, {&second, 17}};
    const Bits last = run(model, rest);
    EXPECT_EQ(rows_of(last, model, 0, 20), rows_of(first_alone, model, 50, 20));
    EXPECT_EQ(rows_of(last, model, 20, 17), rows_of(second_alone, model, 48, 17));
  });
}

TEST(CpuModelReuse, CopiesFollowOneAnotherAndComeBeforeTheTokens) {
  for_each_model([](CpuModel& model) {
    const std::vector<TokenId> tokens = random_tokens(30, 4, model);
    const Bits alone = run_alone(model, tokens);
    std::vector<TestSequence> sequences = make_sequences(model, std::span(&tokens, 1), 5);
    TestSequence& sequence = sequences[0];
    const std::vector<TestChunk> begin = {{&sequence, 20}};
    (void)run(model, begin);
    // The second block moves twice, and the batch's tokens are written where it came to.
    const int32_t middle = (sequence.blocks[1] + 7) % 40;
    const int32_t end = (sequence.blocks[1] + 21) % 40;
    ASSERT_TRUE(sequence.blocks[0] != middle && sequence.blocks[0] != end);
    const int32_t start = std::exchange(sequence.blocks[1], end);
    const std::vector<TestChunk> rest = {{&sequence, 10}};
    ForwardBatch batch = make_batch(rest, kBlockSize);
    batch.block_copies = {{.from = start, .to = middle}, {.from = middle, .to = end}};
    EXPECT_EQ(bits_of(model.forward(batch)), rows_of(alone, model, 20, 10));
  });
}

TEST(CpuModelReuse, ASavedStateGivesTheLogitsOfItsTokenWithoutAForwardPass) {
  for_each_model([](CpuModel& model) {
    const std::vector<std::vector<TokenId>> prompts = {
        random_tokens(33, 6, model), random_tokens(50, 7, model)};
    std::vector<TestSequence> sequences = make_sequences(model, prompts, 8);
    const std::vector<TestChunk> chunks = {{&sequences[0], 33}, {&sequences[1], 20}};
    ForwardBatch batch = make_batch(chunks, kBlockSize);
    // One state whose logits are read, one of a token whose logits nobody asks for.
    const Bits all = bits_of(model.forward(batch));
    batch.hidden_saves = {{.token = 32, .slot = 3}, {.token = 52, .slot = 0}};
    batch.logit_rows = {LogitRow::of_token(32)};
    EXPECT_EQ(bits_of(model.forward(batch)), rows_of(all, model, 32, 1));

    ForwardBatch resumed;
    resumed.cu_seqlens = {0};
    resumed.logit_rows = {LogitRow::of_slot(0), LogitRow::of_slot(3), LogitRow::of_slot(0)};
    Bits expected = rows_of(all, model, 52, 1);
    const Bits last = rows_of(all, model, 32, 1);
    expected.insert(expected.end(), last.begin(), last.end());
    expected.insert(expected.end(), all.end() - model.vocab_size(), all.end());
    EXPECT_EQ(bits_of(model.forward(resumed)), expected);
    EXPECT_EQ(bits_of(model.forward(resumed)), expected) << "reading changes nothing";
  });
}

TEST(CpuModelReuse, AStateIsReadBeforeAnotherIsSavedInItsSlotAmongNeighboursAndCopies) {
  for_each_model([](CpuModel& model) {
    const std::vector<std::vector<TokenId>> prompts = {
        random_tokens(18, 9, model), random_tokens(40, 10, model)};
    const Bits first = run_alone(model, prompts[0]);
    const Bits second = run_alone(model, prompts[1]);
    std::vector<TestSequence> sequences = make_sequences(model, prompts, 12);
    const std::vector<TestChunk> begin = {{&sequences[0], 18}};
    ForwardBatch batch = make_batch(begin, kBlockSize);
    batch.hidden_saves = {{.token = 17, .slot = 2}};
    (void)model.forward(batch);

    const std::vector<TestChunk> chunks = {{&sequences[1], 40}};
    batch = make_batch(chunks, kBlockSize);
    batch.hidden_saves = {{.token = 39, .slot = 2}};
    batch.logit_rows = {LogitRow::of_token(5), LogitRow::of_slot(2), LogitRow::of_token(39)};
    const int32_t copy = (sequences[0].blocks[0] + 20) % 40;
    ASSERT_EQ(std::ranges::count(sequences[1].blocks, copy), 0);
    batch.block_copies = {{.from = sequences[0].blocks[0], .to = copy}};
    const Bits mixed = bits_of(model.forward(batch));
    EXPECT_EQ(rows_of(mixed, model, 0, 1), rows_of(second, model, 5, 1));
    EXPECT_EQ(rows_of(mixed, model, 1, 1), rows_of(first, model, 17, 1));
    EXPECT_EQ(rows_of(mixed, model, 2, 1), rows_of(second, model, 39, 1));

    ForwardBatch resumed;
    resumed.cu_seqlens = {0};
    resumed.logit_rows = {LogitRow::of_slot(2)};
    EXPECT_EQ(bits_of(model.forward(resumed)), rows_of(second, model, 39, 1));
  });
}

TEST(CpuModelReuse, TakesMemoryForAsManyStatesAsItWasToldTo) {
  ThreadPool pool(1);
  const ModelConfig config = tiny_config(ModelFamily::kLlama);
  EXPECT_EQ(load_tiny(config, DType::kFloat32, pool)->num_saved_hidden_bytes(), 4U * 52 * 4);
  const TinyWeights weights(config, 11);
  CpuModelOptions options = reuse_options(DType::kFloat32);
  options.num_hidden_slots = 0;
  const auto none = CpuModel::load(config, weights, options, pool);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ((*none)->num_hidden_slots(), 0);
  EXPECT_EQ((*none)->num_saved_hidden_bytes(), 0U);
  options.num_hidden_slots = -1;
  const auto refused = CpuModel::load(config, weights, options, pool);
  EXPECT_EQ(refused.error().message, "num_hidden_slots is -1, expected 0 or more");
}

class CpuModelReuseDeathTest : public testing::Test {
 protected:
  // What forward() says of a batch of five tokens that `spoil` changed.
  void expect_refusal(void (*spoil)(ForwardBatch&), const char* message) {
    ThreadPool pool(1);
    const auto model = load_tiny(tiny_config(ModelFamily::kLlama), DType::kFloat32, pool);
    const std::vector<std::vector<TokenId>> prompts = {{1, 2, 3, 4, 5}};
    std::vector<TestSequence> sequences = make_sequences(*model, prompts, 1);
    const std::vector<TestChunk> chunks = {{sequences.data(), 5}};
    ForwardBatch batch = make_batch(chunks, kBlockSize);
    spoil(batch);
    EXPECT_DEATH((void)model->forward(batch), message);
  }
};

TEST_F(CpuModelReuseDeathTest, RefusesBlocksSlotsAndTokensThatAreNot) {
  const char* const block = "a block that exists is copied to another one";
  expect_refusal([](ForwardBatch& b) { b.block_copies = {{0, 40}}; }, block);
  expect_refusal([](ForwardBatch& b) { b.block_copies = {{-1, 1}}; }, block);
  expect_refusal([](ForwardBatch& b) { b.block_copies = {{0, 1}, {2, 2}}; }, block);
  const char* const read = "logits of a hidden slot that exists";
  expect_refusal([](ForwardBatch& b) { b.logit_rows[0] = LogitRow::of_slot(4); }, read);
  expect_refusal([](ForwardBatch& b) { b.logit_rows[0] = LogitRow::of_slot(-1); }, read);
  const char* const saved = "a hidden state is saved in a slot that exists";
  expect_refusal([](ForwardBatch& b) { b.hidden_saves = {{.token = 0, .slot = 4}}; }, saved);
  const char* const token = "the hidden state of a token of this batch is saved";
  expect_refusal([](ForwardBatch& b) { b.hidden_saves = {{.token = 5, .slot = 0}}; }, token);
  expect_refusal([](ForwardBatch& b) { b.hidden_saves = {{0, 1}, {1, 1}}; }, "one hidden state");
  expect_refusal([](ForwardBatch& b) { b = {.cu_seqlens = {0}}; }, "something to compute");
}

}  // namespace
}  // namespace millrace
