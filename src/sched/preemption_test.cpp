#include "sched/preemption.h"

#include <gtest/gtest.h>

#include <deque>

namespace millrace {
namespace {

constexpr int32_t kBlockSize = 4;

// Running sequences with blocks of one pool.
class Running {
 public:
  // The first `num_shared` blocks are those of the sequence before.
  void add(int32_t num_computed, int32_t num_shared = 0) {
    requests_.push_back({.prompt = std::vector<TokenId>(100, 1)});
    requests_.back().sampling.prompt_logprobs = 0;
    Sequence& sequence = sequences_.emplace_back(
        requests_.back(), Sequence::Options{.num_tokens_max = 200, .block_size = kBlockSize}
    );
    sequence.start({}, TimePoint{});
    if (num_shared > 0) {
      const auto shared = all_.back()->blocks().blocks().first(static_cast<size_t>(num_shared));
      for (const BlockId block : shared) pool_.add_reference(block);
      sequence.append_blocks(shared);
    }
    const auto num_own = static_cast<size_t>(sequence.blocks().num_blocks_missing(num_computed));
    sequence.append_blocks(pool_.try_allocate(num_own).value());
    if (num_computed > 0) sequence.advance(num_computed);
    all_.push_back(&sequence);
  }

  std::optional<size_t> choose(int32_t num_needed) const {
    return choose_victim(all_, pool_, num_needed);
  }
  PreemptionCost cost(size_t i) const { return preemption_cost(*all_[i], pool_); }

 private:
  BlockPool pool_{64};
  std::deque<Request> requests_;
  std::deque<Sequence> sequences_;
  std::vector<Sequence*> all_;
};

TEST(Preemption, CostsWhatIsInBlocksThatNobodyElseUses) {
  Running running;
  running.add(10);
  running.add(9, 1);
  EXPECT_EQ(running.cost(0).num_blocks_gained, 2);
  EXPECT_EQ(running.cost(0).num_tokens_lost, 6);
  EXPECT_EQ(running.cost(1).num_blocks_gained, 2);
  EXPECT_EQ(running.cost(1).num_tokens_lost, 5);
}

TEST(Preemption, TakesWhoLosesLeastForTheBlocksThatAreNeeded) {
  Running running;
  running.add(40);  // ten blocks
  running.add(5);   // two blocks, one of them nearly empty
  running.add(8);   // two full ones
  EXPECT_EQ(running.choose(1), 1U) << "one block is needed: the shortest loses least";
  EXPECT_EQ(running.choose(2), 1U);
  EXPECT_EQ(running.choose(10), 1U) << "2.5 tokens a block, against 4 and 4";
}

TEST(Preemption, DoesNotThrowALongSequenceAwayForOneBlock) {
  Running running;
  running.add(8);
  running.add(40);
  EXPECT_EQ(running.choose(1), 0U);
}

TEST(Preemption, TakesTheLastOfEquals) {
  Running running;
  for (int i = 0; i < 3; ++i) running.add(8);
  EXPECT_EQ(running.choose(1), 2U);
}

TEST(Preemption, TakesTheLastWhereNobodyGainsABlockAlone) {
  Running running;
  running.add(4);
  running.add(4, 1);
  running.add(4, 1);
  EXPECT_EQ(running.choose(1), 2U);
  EXPECT_EQ(Running().choose(1), std::nullopt);
}

TEST(RecomputeCredit, IsInDebtUntilUsefulWorkHasPaid) {
  RecomputeCredit credit(10);
  credit.earn(1000);  // cannot be saved up beyond the limit
  credit.spend(10);
  EXPECT_FALSE(credit.is_in_debt());
  credit.spend(5);
  EXPECT_TRUE(credit.is_in_debt());
  credit.earn(5 * RecomputeCredit::kUsefulPerRecomputed - 1);
  EXPECT_TRUE(credit.is_in_debt());
  credit.earn(1);
  EXPECT_FALSE(credit.is_in_debt());
}

TEST(RecomputeCredit, GivesBackWhatWasFoundAgain) {
  RecomputeCredit credit(0);
  credit.spend(7);
  credit.refund(6);
  EXPECT_TRUE(credit.is_in_debt());
  credit.refund(1);
  EXPECT_FALSE(credit.is_in_debt());
}

}  // namespace
}  // namespace millrace
