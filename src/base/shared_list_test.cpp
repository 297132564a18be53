#include "base/shared_list.h"

#include <gtest/gtest.h>

#include <vector>

namespace millrace {
namespace {

TEST(SharedList, IsReadAsAListIs) {
  const SharedList<int> list = {3, 1, 2};
  EXPECT_EQ(std::vector<int>(list.begin(), list.end()), (std::vector<int>{3, 1, 2}));
  EXPECT_EQ(list.size(), 3U);
  EXPECT_EQ(list[1], 1);
  EXPECT_FALSE(list.empty());
  EXPECT_EQ(list, std::vector<int>({3, 1, 2}));
  EXPECT_FALSE(list == SharedList<int>({3, 1}));
}

TEST(SharedList, MayBeEmpty) {
  for (const SharedList<int>& list : {SharedList<int>(), SharedList<int>(std::vector<int>())}) {
    EXPECT_TRUE(list.empty());
    EXPECT_EQ(list.size(), 0U);
    EXPECT_EQ(list.begin(), list.end());
    EXPECT_EQ(list, SharedList<int>());
  }
}

TEST(SharedList, CopiesShareItsItems) {
  const SharedList<int> list = {1, 2};
  const SharedList<int> copy = list;
  EXPECT_EQ(copy.begin(), list.begin());
}

}  // namespace
}  // namespace millrace
