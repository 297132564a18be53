#include "sched/draft_pace.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

// How much it guesses after so many drafts of five that were all wrong, or all right.
int32_t num_after(int num_drafts, bool are_right, int32_t num_sequences) {
  DraftPace pace;
  for (int i = 0; i < num_drafts; ++i) pace.note(5, are_right ? 5 : 0);
  return pace.num_worthwhile(num_sequences, 5);
}

TEST(DraftPace, BeginsWithLongDraftsWhereAStepIsCheap) {
  EXPECT_EQ(DraftPace().num_worthwhile(1, 5), 5);
  EXPECT_EQ(DraftPace().num_worthwhile(1, 3), 3) << "no more than there are";
  EXPECT_EQ(DraftPace().num_worthwhile(1, 32), 14);
  EXPECT_EQ(DraftPace().num_worthwhile(8, 5), 4);
  EXPECT_EQ(DraftPace().num_worthwhile(32, 5), 1);
  EXPECT_EQ(DraftPace().num_worthwhile(128, 5), 0) << "a pass is all arithmetic";
}

TEST(DraftPace, GuessesLessTheMoreIsWrongAndTheBusierTheStepIs) {
  int32_t last = 5;
  for (int num_drafts = 0; num_drafts < 40; ++num_drafts) {
    const int32_t num_tokens = num_after(num_drafts, false, 1);
    EXPECT_LE(num_tokens, last) << num_drafts;
    last = num_tokens;
    EXPECT_GE(num_tokens, num_after(num_drafts, false, 8)) << num_drafts;
    EXPECT_GE(num_after(num_drafts, true, 8), num_after(num_drafts, true, 64)) << num_drafts;
  }
  EXPECT_EQ(last, 0) << "never right, and still at it";
  EXPECT_EQ(num_after(3, true, 32), 5) << "a text that repeats itself pays in any batch";
}

// The rule itself: of each second token right, the last one too, the chance is 0.53, and the j-th
// pays while 0.53^j > B / (B + 6).
TEST(DraftPace, FollowsItsCostModel) {
  DraftPace pace;
  for (int i = 0; i < 100; ++i) pace.note(1, i % 2);
  EXPECT_EQ(pace.num_worthwhile(1, 8), 3) << "0.15 > 1/7 > 0.08";
  EXPECT_EQ(pace.num_worthwhile(2, 8), 2) << "0.28 > 2/8 > 0.15";
  EXPECT_EQ(pace.num_worthwhile(4, 8), 1) << "0.53 > 4/10 > 0.28";
  EXPECT_EQ(pace.num_worthwhile(8, 8), 0) << "8/14 > 0.53";
}

TEST(DraftPace, TriesAgainNowAndThenAndRecovers) {
  DraftPace pace;
  for (int i = 0; i < 100; ++i) pace.note(5, 0);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < DraftPace::kNumStepsBetweenProbes; ++i) {
      ASSERT_EQ(pace.num_worthwhile(1, 5), 0) << i;
    }
    EXPECT_EQ(pace.num_worthwhile(1, 5), 5);
    pace.note(5, 0);
  }
  for (int i = 0; i < DraftPace::kNumStepsBetweenProbes; ++i) pace.num_worthwhile(1, 5);
  EXPECT_EQ(pace.num_worthwhile(1, 5), 5);
  pace.note(5, 5);
  EXPECT_GE(pace.num_worthwhile(1, 5), 2) << "one success is believed at once";
  for (int i = 0; i < 4; ++i) pace.note(5, 5);
  EXPECT_EQ(pace.num_worthwhile(1, 5), 5);
}

TEST(DraftPace, AProbeInABusyStepIsShortOrNone) {
  for (const auto& [num_sequences, expected] : {std::pair(8, 4), {32, 1}, {200, 0}}) {
    DraftPace pace;
    for (int i = 0; i < 100; ++i) pace.note(5, 0);
    int32_t longest = 0;
    for (int i = 0; i < 100; ++i)
      longest = std::max(longest, pace.num_worthwhile(num_sequences, 5));
    EXPECT_EQ(longest, expected) << num_sequences;
  }
}

}  // namespace
}  // namespace millrace
