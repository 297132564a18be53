#include "model/output_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Three sequences of 4, 1 and 3 tokens, which begin at positions 10, 20 and 30.
ForwardBatch three_sequences() {
  ForwardBatch batch;
  batch.token_ids.assign(8, 1);
  batch.positions = {10, 11, 12, 13, 20, 30, 31, 32};
  batch.cu_seqlens = {0, 4, 5, 8};
  batch.context_lens = {14, 21, 33};
  return batch;
}

TEST(OutputRows, AreTheTokensOfLogitsAndSaves) {
  ForwardBatch batch = three_sequences();
  batch.logit_rows = {LogitRow::of_token(4), LogitRow::of_slot(0), LogitRow::of_token(3)};
  batch.hidden_saves = {{.token = 7, .slot = 2}};
  const OutputRows rows = output_rows(batch);
  EXPECT_THAT(rows.tokens, ElementsAre(3, 4, 7));
  EXPECT_THAT(rows.positions, ElementsAre(13, 20, 32));
  EXPECT_THAT(rows.cu_seqlens, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(rows.row_of, ElementsAre(-1, -1, -1, 0, 1, -1, -1, 2));
}

TEST(OutputRows, OfASequenceHaveNoGaps) {
  ForwardBatch batch = three_sequences();
  batch.logit_rows = {LogitRow::of_token(3), LogitRow::of_token(1), LogitRow::of_token(1)};
  const OutputRows rows = output_rows(batch);
  EXPECT_THAT(rows.tokens, ElementsAre(1, 2, 3));
  EXPECT_THAT(rows.positions, ElementsAre(11, 12, 13));
  EXPECT_THAT(rows.cu_seqlens, ElementsAre(0, 3, 3, 3)) << "sequences without rows stay";
}

TEST(OutputRows, MayBeNone) {
  ForwardBatch batch = three_sequences();
  batch.logit_rows = {LogitRow::of_slot(5)};
  EXPECT_EQ(output_rows(batch).num_rows(), 0);
  EXPECT_THAT(output_rows(batch).cu_seqlens, ElementsAre(0, 0, 0, 0));

  ForwardBatch no_tokens;
  no_tokens.cu_seqlens = {0};
  EXPECT_EQ(output_rows(no_tokens).num_rows(), 0);
  EXPECT_THAT(output_rows(no_tokens).row_of, IsEmpty());
}

TEST(OutputRows, OfAllTokensAreTheBatch) {
  const ForwardBatch batch = three_sequences();
  const OutputRows rows = all_rows(batch);
  EXPECT_THAT(rows.tokens, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(rows.row_of, rows.tokens);
  EXPECT_EQ(rows.positions, batch.positions);
  EXPECT_EQ(rows.cu_seqlens, batch.cu_seqlens);
}

}  // namespace
}  // namespace millrace
