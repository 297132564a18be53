#include "sched/fair_share.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

constexpr TenantId kA{1};
constexpr TenantId kB{2};

// A sequence that runs at once, as it does where nobody waits.
void run(FairShare& share, TenantId tenant, int64_t num_tokens) {
  share.enter(tenant);
  share.begin_to_wait(tenant);
  share.stop_waiting(tenant);
  share.charge(tenant, num_tokens);
}

TEST(FairShare, OwesNobodyForATimeInWhichItAskedForNothing) {
  FairShare share;
  run(share, kA, 1000);
  share.enter(kB);
  share.begin_to_wait(kB);
  EXPECT_EQ(share.num_served(kB), 1000);
}

TEST(FairShare, RemembersWhatWasServedToWhoLeavesAndComesBack) {
  FairShare share;
  share.enter(kB);
  share.begin_to_wait(kB);
  run(share, kA, 1000);
  share.leave(kA);
  share.enter(kA);
  share.begin_to_wait(kA);
  EXPECT_EQ(share.num_served(kA), 1000);
  EXPECT_EQ(share.num_served(kB), 0);
}

TEST(FairShare, ForgetsEverybodyWhenNobodyIsLeft) {
  FairShare share;
  run(share, kA, 1000);
  share.leave(kA);
  run(share, kB, 0);
  run(share, kA, 0);
  EXPECT_EQ(share.num_served(kA), 0);
}

// One tenant that took what nobody else wanted, while another always had something running, waited
// for the other to be served as much, hours later.
TEST(FairShare, OwesNobodyForWhatOthersTookWhileItsOwnRan) {
  FairShare share;
  share.enter(kB);  // runs all the time
  for (int i = 0; i < 100; ++i) {
    run(share, kA, 10'000);
    share.leave(kA);
    run(share, kB, 10);
    share.leave(kB);
  }
  run(share, kA, 10);
  share.enter(kB);
  share.begin_to_wait(kB);
  EXPECT_GE(share.num_served(kB) + 10'000, share.num_served(kA));
}

}  // namespace
}  // namespace millrace
