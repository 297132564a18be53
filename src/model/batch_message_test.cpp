#include "model/batch_message.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(BatchMessage, BringsEveryFieldOfABatch) {
  ForwardBatch batch;
  batch.token_ids = {5, 6, 7};
  batch.positions = {0, 1, 9};
  batch.slot_mapping = {16, 17, 41};
  batch.cu_seqlens = {0, 2, 3};
  batch.context_lens = {2, 10};
  batch.block_tables = {1, -1, 2, 3};
  batch.max_blocks_per_sequence = 2;
  batch.logit_rows = {LogitRow::of_token(1), LogitRow::of_slot(4)};
  batch.block_copies = {{.from = 7, .to = 3}};
  batch.hidden_saves = {{.token = 2, .slot = 0}};
  std::vector<std::byte> message(3);
  encode_batch(batch, message);
  const ForwardBatch read = decode_batch(message);
  EXPECT_EQ(read.token_ids, batch.token_ids);
  EXPECT_EQ(read.positions, batch.positions);
  EXPECT_EQ(read.slot_mapping, batch.slot_mapping);
  EXPECT_EQ(read.cu_seqlens, batch.cu_seqlens);
  EXPECT_EQ(read.context_lens, batch.context_lens);
  EXPECT_EQ(read.block_tables, batch.block_tables);
  EXPECT_EQ(read.max_blocks_per_sequence, batch.max_blocks_per_sequence);
  EXPECT_EQ(read.logit_rows, batch.logit_rows);
  EXPECT_EQ(read.block_copies, batch.block_copies);
  EXPECT_EQ(read.hidden_saves, batch.hidden_saves);
}

TEST(BatchMessage, IsNeverEmpty) {
  std::vector<std::byte> message;
  encode_batch({}, message);
  EXPECT_FALSE(message.empty());
  EXPECT_EQ(decode_batch(message).num_tokens(), 0);
}

TEST(BatchMessageDeathTest, RefusesHalfABatch) {
  ForwardBatch batch;
  batch.token_ids = {5, 6, 7};
  std::vector<std::byte> message;
  encode_batch(batch, message);
  EXPECT_DEATH((void)decode_batch(std::span(message).first(20)), "a whole batch");
  message.push_back({});
  EXPECT_DEATH((void)decode_batch(message), "a batch and no more");
}

}  // namespace
}  // namespace millrace
