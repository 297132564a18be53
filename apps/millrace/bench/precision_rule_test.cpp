// When enough has been measured.
#include <gtest/gtest.h>

#include "bench/precision.h"
#include "results/record_fixture.h"

namespace millrace::bench {
namespace {

// Every second request takes `spread` times longer than the others to its first token.
PointRecord record_of(int64_t num_requests, double spread) {
  PointRecord record = make_closed_loop(4, num_requests, {});
  for (RequestRecord& request : record.requests) {
    if ((request.index / 4) % 2 == 0) continue;
    const Nanos later = from_ms(100.0 * (spread - 1.0));
    request.sent -= later;
    request.admitted -= later;
    request.scheduled -= later;
  }
  return record;
}

bool is_precise(const PointRecord& record, double percent) {
  return precision_test(record.plan, percent)(record.requests);
}

TEST(Precision, NeedsThirtyRequests) {
  EXPECT_FALSE(is_precise(record_of(28, 1.0), 50.0));
  EXPECT_TRUE(is_precise(record_of(200, 1.0), 50.0));
}

TEST(Precision, NeedsMoreWhereTimesVary) {
  EXPECT_TRUE(is_precise(record_of(400, 1.1), 20.0));
  EXPECT_FALSE(is_precise(record_of(400, 30.0), 1.0));
}

TEST(Precision, DoesNotWaitForGapsThatAreNotThere) {
  PointRecord record = make_closed_loop(4, 400, {.num_chunks = 1});
  EXPECT_TRUE(is_precise(record, 20.0));
}

}  // namespace
}  // namespace millrace::bench
