#include "tensor/buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace millrace {
namespace {

TEST(Buffer, IsZeroedAndAligned) {
  for (const size_t num_bytes : {1UL, 64UL, 4097UL, (2UL << 20) + 1}) {
    Result<Buffer> buffer = Buffer::allocate(num_bytes);
    ASSERT_TRUE(buffer);
    EXPECT_EQ(buffer->num_bytes(), num_bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->bytes().data()) % 64, 0U);
    EXPECT_TRUE(std::ranges::all_of(buffer->bytes(), [](std::byte b) { return b == std::byte{0}; })
    );
    std::ranges::fill(buffer->bytes(), std::byte{0xFF});
  }
}

TEST(Buffer, MovesItsMemory) {
  Result<Buffer> made = Buffer::allocate(16);
  ASSERT_TRUE(made);
  Buffer first = *std::move(made);
  first.as<float>()[3] = 7.0F;
  Buffer second = std::move(first);
  EXPECT_EQ(second.as<float>()[3], 7.0F);
  first = std::move(second);
  EXPECT_EQ(first.as<float>().size(), 4U);
}

TEST(Buffer, SaysWhenThereIsNoSuchMemory) {
  const Result<Buffer> buffer = Buffer::allocate(SIZE_MAX - 1);
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().code, ErrorCode::kResourceExhausted);
}

TEST(Buffer, MayBeEmpty) {
  const Result<Buffer> buffer = Buffer::allocate(0);
  ASSERT_TRUE(buffer);
  EXPECT_TRUE(buffer->bytes().empty());
}

}  // namespace
}  // namespace millrace
