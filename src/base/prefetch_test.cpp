#include "base/prefetch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace {
namespace {

std::string trace_of(size_t num_items) {
  std::vector<int> items(num_items);
  for (size_t i = 0; i < num_items; ++i) items[i] = static_cast<int>(i);
  std::string trace;
  use_each_prefetched(
      std::span(items),
      2,
      [&](int item, size_t step) { trace += fmt::format("p{}.{} ", item, step); },
      [&](int item) { trace += fmt::format("use{} ", item); }
  );
  return trace;
}

TEST(Prefetch, EachStepIsAnItemAheadOfTheNext) {
  EXPECT_EQ(trace_of(0), "");
  EXPECT_EQ(trace_of(1), "p0.0 p0.1 use0 ");
  EXPECT_EQ(trace_of(4), "p0.0 p1.0 p0.1 p2.0 p1.1 use0 p3.0 p2.1 use1 p3.1 use2 use3 ");
}

}  // namespace
}  // namespace millrace
