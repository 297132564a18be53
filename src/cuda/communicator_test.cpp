#include "cuda/communicator.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "cuda/device_buffer.h"
#include "cuda/stream.h"

namespace millrace::cuda {
namespace {

TEST(Communicator, OfOneProcessNeedsNobody) {
  const Result<std::unique_ptr<Communicator>> alone = join_communicator({});
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_EQ((*alone)->rank(), 0);
  EXPECT_EQ((*alone)->world_size(), 1);

  const Stream stream = *Stream::create();
  const DeviceBuffer own = *DeviceBuffer::allocate(2 * sizeof(float));
  const DeviceBuffer all = *DeviceBuffer::allocate(2 * sizeof(float));
  const std::vector<float> values = {1.5f, -2.0f};
  own.write(stream.handle(), std::as_bytes(std::span(values)));
  (*alone)->all_reduce_sum(stream.handle(), own.as<float>(), 2);
  (*alone)->all_gather(stream.handle(), own.as<float>(), all.as<float>(), 2);
  (*alone)->all_gather(stream.handle(), all.as<float>(), all.as<float>(), 2);
  std::vector<float> read(2);
  all.read(stream.handle(), std::as_writable_bytes(std::span(read)));
  stream.wait();
  EXPECT_EQ(read, values);
}

TEST(Communicator, RefusesARankThatIsNone) {
  for (const CommunicatorOptions& options : {
           CommunicatorOptions{.rank = 1, .world_size = 1},
           CommunicatorOptions{.rank = -1, .world_size = 2},
           CommunicatorOptions{.rank = 0, .world_size = 0},
       }) {
    const Result<std::unique_ptr<Communicator>> joined = join_communicator(options);
    ASSERT_FALSE(joined);
    EXPECT_EQ(joined.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace millrace::cuda
