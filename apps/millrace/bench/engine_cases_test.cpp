// The batches that `millrace bench engine` times are those that the engine would make.
#include "bench/engine_cases.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

namespace millrace::bench {
namespace {

constexpr SpeedLayout kLayout = {
    .block_size = 16, .blocks_per_sequence = 4, .max_num_batched_tokens = 24, .vocab_size = 50};

// How often each (sequence, position) is computed, and after what context.
std::map<std::pair<int32_t, int32_t>, int32_t> computed(const std::vector<ForwardBatch>& batches) {
  std::map<std::pair<int32_t, int32_t>, int32_t> times;
  for (const ForwardBatch& batch : batches) {
    EXPECT_LE(batch.num_tokens(), kLayout.max_num_batched_tokens);
    for (int32_t sequence = 0; sequence < batch.num_sequences(); ++sequence) {
      const auto row = static_cast<size_t>(sequence);
      const int32_t first_block = batch.block_tables[row * 4];
      const int32_t end = batch.cu_seqlens[row + 1];
      EXPECT_EQ(batch.positions[static_cast<size_t>(end - 1)] + 1, batch.context_lens[row]);
      for (int32_t i = batch.cu_seqlens[row]; i < end; ++i) {
        const auto token = static_cast<size_t>(i);
        EXPECT_EQ(batch.slot_mapping[token], first_block * 16 + batch.positions[token]);
        EXPECT_LT(batch.token_ids[token], 50);
        ++times[{first_block / 4, batch.positions[token]}];
      }
    }
  }
  return times;
}

int32_t num_logits(const std::vector<ForwardBatch>& batches) {
  int32_t count = 0;
  for (const ForwardBatch& batch : batches) count += batch.num_logits();
  return count;
}

TEST(SpeedCase, APrefillComputesEachTokenOnceInFullSteps) {
  const auto batches = batches_of({SpeedPhase::kPrefill, 3, 5, 30}, kLayout);
  EXPECT_EQ(batches.size(), 4U) << "90 tokens, 24 a step";
  for (size_t i = 0; i + 1 < batches.size(); ++i) EXPECT_EQ(batches[i].num_tokens(), 24);
  const auto times = computed(batches);
  EXPECT_EQ(times.size(), 90U);
  for (const auto& [place, count] : times) {
    EXPECT_EQ(count, 1);
    EXPECT_GE(place.second, 5) << "after the context";
    EXPECT_LT(place.second, 35);
  }
  EXPECT_EQ(num_logits(batches), 3) << "of each sequence's last token";
}

TEST(SpeedCase, ADecodeComputesOneTokenOfEachSequenceAStep) {
  const auto batches = batches_of({SpeedPhase::kDecode, 4, 7, 9}, kLayout);
  ASSERT_EQ(batches.size(), 9U);
  for (size_t step = 0; step < batches.size(); ++step) {
    EXPECT_EQ(batches[step].num_tokens(), 4);
    EXPECT_EQ(batches[step].num_logits(), 4);
    for (const int32_t length : batches[step].context_lens) {
      EXPECT_EQ(length, 8 + static_cast<int32_t>(step));
    }
  }
  EXPECT_EQ(computed(batches).size(), 36U);
  EXPECT_EQ((SpeedCase{SpeedPhase::kDecode, 4, 7, 9}).num_tokens_in_all(), 36);
}

TEST(SpeedCase, ADecodeTakesWhatTheStepBeforeDraws) {
  auto batches = batches_of({SpeedPhase::kDecode, 2, 7, 3}, kLayout);
  const std::vector<TokenId> first = batches[0].token_ids;
  draw_tokens(SpeedPhase::kDecode, batches);
  EXPECT_EQ(batches[0].token_ids, first);
  EXPECT_TRUE(batches[0].pending.empty());
  for (const ForwardBatch& batch : batches) EXPECT_EQ(batch.draws.size(), 2U);
  for (size_t step = 1; step < 3; ++step) {
    EXPECT_EQ(batches[step].token_ids, (std::vector<TokenId>{kPendingToken, kPendingToken}));
    EXPECT_EQ(batches[step].pending, (std::vector<PendingToken>{{0, 0}, {1, 1}}));
  }

  auto prompts = batches_of({SpeedPhase::kPrefill, 3, 5, 30}, kLayout);
  draw_tokens(SpeedPhase::kPrefill, prompts);
  for (const ForwardBatch& batch : prompts) {
    EXPECT_EQ(batch.draws.size(), batch.logit_rows.size());
    EXPECT_TRUE(batch.pending.empty());
  }
}

TEST(SpeedContext, FillsEveryBlockOfEverySequenceOnce) {
  for (const int32_t context_len : {1, 16, 24, 25, 63}) {
    const auto batches = context_batches(context_len, 3, kLayout);
    ASSERT_EQ(batches.size(), 2U) << context_len;
    std::set<int32_t> filled;
    for (const auto& [place, count] : computed({batches[0]})) filled.insert(place.second / 16);
    const std::set<int32_t> sources = filled;
    for (const KvBlockCopy& copy : batches[1].block_copies) {
      EXPECT_TRUE(sources.contains(copy.from)) << "a copy of what was computed";
      EXPECT_TRUE(filled.insert(copy.to).second) << "each once";
    }
    std::set<int32_t> expected;
    for (int32_t sequence = 0; sequence < 3; ++sequence) {
      for (int32_t i = 0; i < (context_len + 15) / 16; ++i) expected.insert(sequence * 4 + i);
    }
    EXPECT_EQ(filled, expected) << context_len;
  }
  EXPECT_TRUE(context_batches(0, 3, kLayout).empty());
}

TEST(SpeedCase, HasTheSameTokensEachTime) {
  const SpeedCase one = {SpeedPhase::kPrefill, 2, 0, 20};
  EXPECT_EQ(batches_of(one, kLayout)[0].token_ids, batches_of(one, kLayout)[0].token_ids);
  const auto batches = batches_of(one, kLayout);
  EXPECT_GT(std::set<TokenId>(batches[0].token_ids.begin(), batches[0].token_ids.end()).size(), 5U);
}

}  // namespace
}  // namespace millrace::bench
