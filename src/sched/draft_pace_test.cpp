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
  EXPECT_EQ(DraftPace().num_worthwhile(1, 32), 21);
  EXPECT_EQ(DraftPace().num_worthwhile(8, 5), 5);
  EXPECT_EQ(DraftPace().num_worthwhile(64, 5), 1);
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
  EXPECT_EQ(num_after(3, true, 64), 5) << "a text that repeats itself pays in any batch";
}

// The rule itself: at a chance of a half, the j-th token pays while 1/2^j > B / (B + 16).
TEST(DraftPace, FollowsItsCostModel) {
  DraftPace pace;
  for (int i = 0; i < 100; ++i) pace.note(1, i % 2);
  EXPECT_EQ(pace.num_worthwhile(1, 8), 4) << "1/16 > 1/17 > 1/32";
  EXPECT_EQ(pace.num_worthwhile(4, 8), 2) << "1/4 > 1/5 > 1/8";
  EXPECT_EQ(pace.num_worthwhile(8, 8), 1) << "1/2 > 8/24 > 1/4";
  EXPECT_EQ(pace.num_worthwhile(32, 8), 0) << "32/48 > 1/2";
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
  for (const auto& [num_sequences, expected] : {std::pair(32, 3), {64, 1}, {200, 0}}) {
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
