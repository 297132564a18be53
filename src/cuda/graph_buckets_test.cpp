#include "cuda/graph_buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::cuda {
namespace {

using testing::ElementsAre;

TEST(GraphBuckets, DecodeHasFineSizesWhereTheyAreFew) {
  EXPECT_THAT(GraphBuckets::for_decode(48).sizes(), ElementsAre(1, 2, 4, 8, 16, 24, 32, 40, 48));
  const GraphBuckets large = GraphBuckets::for_decode(300);
  EXPECT_EQ(large.smallest_that_fits(256), 256);
  EXPECT_EQ(large.smallest_that_fits(257), 272);
  EXPECT_EQ(large.smallest_that_fits(289), 300);
}

TEST(GraphBuckets, TheLargestStepHasABucketWhateverItsSize) {
  for (const int32_t max : {1, 2, 3, 5, 8, 9, 17, 100, 129, 257, 1000, 2048, 8191}) {
    for (const GraphBuckets& buckets :
         {GraphBuckets::for_decode(max), GraphBuckets::for_tokens(max)}) {
      EXPECT_EQ(buckets.sizes().back(), max);
      EXPECT_EQ(buckets.smallest_that_fits(max), max);
      EXPECT_EQ(buckets.smallest_that_fits(max + 1), std::nullopt);
    }
  }
}

TEST(GraphBuckets, AscendAndHoldEveryStepInTheSmallestThatFits) {
  for (const GraphBuckets& buckets :
       {GraphBuckets::for_decode(512), GraphBuckets::for_tokens(2048)}) {
    size_t index = 0;
    for (int32_t num_rows = 1; num_rows <= buckets.sizes().back(); ++num_rows) {
      if (num_rows > buckets.sizes()[index]) ++index;
      ASSERT_EQ(buckets.smallest_that_fits(num_rows), buckets.sizes()[index]) << num_rows;
      ASSERT_LE(num_rows, buckets.sizes()[index]);
    }
    EXPECT_EQ(index + 1, buckets.sizes().size());
  }
}

TEST(GraphBuckets, PaddingOfATokenStepIsLessThanAnEighth) {
  const GraphBuckets buckets = GraphBuckets::for_tokens(8192);
  EXPECT_LE(buckets.sizes().size(), 64u);
  for (int32_t num_rows = 129; num_rows <= 8192; ++num_rows) {
    const int32_t padding = *buckets.smallest_that_fits(num_rows) - num_rows;
    ASSERT_LT(padding * 8, num_rows) << num_rows;
  }
}

}  // namespace
}  // namespace millrace::cuda
