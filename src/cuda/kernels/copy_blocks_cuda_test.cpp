#include <gtest/gtest.h>

#include <numeric>

#include "cuda/kernels/copy_blocks.h"
#include "cuda/kernels/device_array.h"
#include "cuda/kernels/thread_orders.h"

namespace millrace::cuda {
namespace {

TEST(CopyBlocksOnDevice, CopiesInOrderInAllPlanes) {
  constexpr size_t kPlanes = 3;
  constexpr size_t kBlocks = 5;
  for (const size_t block_words : {4, 8, 1028, 3000}) {
    const size_t plane_words = kBlocks * block_words + 8;  // a plane ends with what is nobody's
    std::vector<uint32_t> expected(kPlanes * plane_words);
    std::iota(expected.begin(), expected.end(), 0U);
    const std::vector<uint32_t> before = expected;
    const std::vector<BlockCopy> copies = {{0, 1}, {1, 2}, {4, 0}, {0, 1}};
    for (const BlockCopy& copy : copies) {
      for (size_t plane = 0; plane < kPlanes; ++plane) {
        for (size_t i = 0; i < block_words; ++i) {
          const size_t at = plane * plane_words + i;
          expected[at + static_cast<size_t>(copy.to) * block_words] =
              expected[at + static_cast<size_t>(copy.from) * block_words];
        }
      }
    }
    const auto result = same_in_every_thread_order([&] {
      const DeviceArray<uint32_t> planes(before);
      const DeviceArray<BlockCopy> device_copies(copies);
      copy_blocks(
          {},
          {.planes = planes.data(),
           .num_planes = kPlanes,
           .plane_bytes = plane_words * 4,
           .block_bytes = block_words * 4,
           .copies = device_copies.data(),
           .num_copies = copies.size()}
      );
      return planes.read();
    });
    EXPECT_TRUE(result == expected) << block_words;
  }
}

TEST(CopyBlocksOnDevice, DoesNothingForNoCopies) {
  copy_blocks({}, {});
}

}  // namespace
}  // namespace millrace::cuda
