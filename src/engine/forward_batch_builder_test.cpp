#include "engine/forward_batch_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A sequence of `num_tokens` prompt tokens from `first_token` on, in blocks of four.
struct Stretch {
  Request request;
  Sequence sequence;

  Stretch(TokenId first_token, int32_t num_tokens, std::vector<BlockId> blocks)
      : request(make_request(first_token, num_tokens)),
        sequence(request, {.num_tokens_max = 64, .block_size = 4}) {
    sequence.append_blocks(blocks);
  }

 private:
  static Request make_request(TokenId first_token, int32_t num_tokens) {
    Request request;
    for (int32_t i = 0; i < num_tokens; ++i) request.prompt.push_back(first_token + i);
    return request;
  }
};

TEST(ForwardBatchBuilder, FlattensStretchesWithTheirRowsAndSaves) {
  const Stretch first(10, 6, {{7}, {3}});
  const Stretch second(20, 2, {{5}});
  StepPlan plan;
  plan.scheduled = {
      {.sequence = &first.sequence, .first_token = 3, .num_tokens = 2, .num_logit_rows = 0},
      {.sequence = &second.sequence,
       .first_token = 0,
       .num_tokens = 2,
       .num_logit_rows = 1,
       .saved_to = HiddenSlotId{9}},
  };
  plan.num_tokens = 4;
  plan.num_logit_rows = 1;
  const ForwardBatch batch = build_forward_batch(plan);
  EXPECT_THAT(batch.token_ids, ElementsAre(13, 14, 20, 21));
  EXPECT_THAT(batch.positions, ElementsAre(3, 4, 0, 1));
  EXPECT_THAT(batch.slot_mapping, ElementsAre(7 * 4 + 3, 3 * 4, 5 * 4, 5 * 4 + 1));
  EXPECT_THAT(batch.cu_seqlens, ElementsAre(0, 2, 4));
  EXPECT_THAT(batch.context_lens, ElementsAre(5, 2));
  EXPECT_EQ(batch.max_blocks_per_sequence, 2);
  EXPECT_THAT(batch.block_tables, ElementsAre(7, 3, 5, 0));
  EXPECT_THAT(batch.logit_rows, ElementsAre(LogitRow::of_token(3)));
  EXPECT_THAT(batch.hidden_saves, ElementsAre(HiddenSave{.token = 3, .slot = 9}));
  EXPECT_THAT(batch.block_copies, IsEmpty());
}

TEST(ForwardBatchBuilder, WhoResumesIsARowOfLogitsInItsPlaceAndNothingElse) {
  const Stretch first(10, 3, {{1}});
  const Stretch resumed(20, 9, {{2}, {3}, {4}});
  const Stretch last(30, 1, {{6}});
  StepPlan plan;
  plan.scheduled = {
      {.sequence = &first.sequence, .first_token = 0, .num_tokens = 3, .num_logit_rows = 2},
      {.sequence = &resumed.sequence,
       .first_token = 9,
       .num_tokens = 0,
       .num_logit_rows = 1,
       .resumed_from = HiddenSlotId{4}},
      {.sequence = &last.sequence, .first_token = 0, .num_tokens = 1, .num_logit_rows = 1},
  };
  plan.copies = {{.from = {8}, .to = {6}}, {.from = {2}, .to = {9}}};
  const ForwardBatch batch = build_forward_batch(plan);
  EXPECT_THAT(batch.token_ids, ElementsAre(10, 11, 12, 30));
  EXPECT_THAT(batch.cu_seqlens, ElementsAre(0, 3, 4));
  EXPECT_THAT(batch.context_lens, ElementsAre(3, 1));
  EXPECT_EQ(batch.max_blocks_per_sequence, 1) << "as wide as the batch's own sequences need";
  EXPECT_THAT(batch.block_tables, ElementsAre(1, 6));
  EXPECT_THAT(
      batch.logit_rows,
      ElementsAre(
          LogitRow::of_token(1), LogitRow::of_token(2), LogitRow::of_slot(4), LogitRow::of_token(3)
      )
  );
  EXPECT_THAT(
      batch.block_copies,
      ElementsAre(KvBlockCopy{.from = 8, .to = 6}, KvBlockCopy{.from = 2, .to = 9})
  );
}

TEST(ForwardBatchBuilder, AnExactRepeatAloneIsABatchWithoutTokens) {
  const Stretch resumed(20, 9, {{2}, {3}, {4}});
  StepPlan plan;
  plan.scheduled = {
      {.sequence = &resumed.sequence,
       .first_token = 9,
       .num_tokens = 0,
       .num_logit_rows = 1,
       .resumed_from = HiddenSlotId{0}},
  };
  const ForwardBatch batch = build_forward_batch(plan);
  EXPECT_EQ(batch.num_tokens(), 0);
  EXPECT_EQ(batch.num_sequences(), 0);
  EXPECT_THAT(batch.cu_seqlens, ElementsAre(0));
  EXPECT_THAT(batch.block_tables, IsEmpty());
  EXPECT_THAT(batch.logit_rows, ElementsAre(LogitRow::of_slot(0)));
}

// The prompt and one output token are computed by a step in flight, which chooses the next from its
// row 5.
TEST(ForwardBatchBuilder, ATokenThatTheStepBeforeChoosesIsPending) {
  const Stretch other(30, 2, {{5}});
  Stretch stretch(10, 3, {{1}, {2}});
  stretch.sequence.start({}, TimePoint{});
  stretch.sequence.advance(3);
  stretch.sequence.settle();
  stretch.sequence.append_output(20, TimePoint{});
  stretch.sequence.advance(1);
  stretch.sequence.await_output(5);
  StepPlan plan;
  plan.scheduled = {
      {.sequence = &other.sequence, .first_token = 0, .num_tokens = 2, .num_logit_rows = 1},
      {.sequence = &stretch.sequence, .first_token = 4, .num_tokens = 1, .num_logit_rows = 1},
  };
  const ForwardBatch batch = build_forward_batch(plan);
  EXPECT_THAT(batch.token_ids, ElementsAre(30, 31, kPendingToken));
  EXPECT_THAT(batch.pending, ElementsAre(PendingToken{.token = 2, .row = 5}));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 4));
  EXPECT_THAT(batch.slot_mapping, ElementsAre(5 * 4, 5 * 4 + 1, 2 * 4));
}

}  // namespace
}  // namespace millrace
