#include "sched/fair_share.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

constexpr TenantId kA{1};
constexpr TenantId kB{2};

TEST(FairShare, OwesNobodyForATimeInWhichItAskedForNothing) {
  FairShare share;
  share.enter(kA);
  share.charge(kA, 1000);
  share.enter(kB);
  EXPECT_EQ(share.num_served(kB), 1000);
}

TEST(FairShare, RemembersWhatWasServedToWhoLeavesAndComesBack) {
  FairShare share;
  share.enter(kA);
  share.enter(kB);
  share.charge(kA, 1000);
  share.leave(kA);
  share.enter(kA);
  EXPECT_EQ(share.num_served(kA), 1000);
  EXPECT_EQ(share.num_served(kB), 0);
}

TEST(FairShare, ForgetsEverybodyWhenNobodyIsLeft) {
  FairShare share;
  share.enter(kA);
  share.charge(kA, 1000);
  share.leave(kA);
  share.enter(kB);
  share.enter(kA);
  EXPECT_EQ(share.num_served(kA), 0);
}

}  // namespace
}  // namespace millrace
