// What a build without the CUDA toolkit says.
#include "cuda/runtime.h"

#include <gtest/gtest.h>

#include "cuda/device_buffer.h"
#include "cuda/event.h"
#include "cuda/pinned_buffer.h"
#include "cuda/stream.h"

namespace millrace::cuda {
namespace {

template <class T>
void expect_no_backend(const Result<T>& result) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(
      result.error().message,
      "no CUDA device: this build has no CUDA backend; build it where nvcc is on PATH, or after "
      "`./dev setup --cuda`"
  );
}

TEST(AbsentRuntime, SaysWhatTheBuildLacks) {
  EXPECT_EQ(describe_build(), "none");
  expect_no_backend(find_device(0));
  expect_no_backend(DeviceBuffer::allocate(1));
  expect_no_backend(PinnedBuffer::allocate(1));
  expect_no_backend(Stream::create());
  expect_no_backend(Event::create(EventKind::kTimed));
}

TEST(AbsentRuntime, HasNothingToGiveBack) {
  const DeviceBuffer device;
  const PinnedBuffer pinned;
  destroy_stream({});
  destroy_graph({});
}

TEST(AbsentRuntimeDeathTest, CannotBeGivenWork) {
  EXPECT_DEATH(set_bytes({}, nullptr, 0, 1), "this build has no CUDA backend");
  int not_ours = 0;
  EXPECT_DEATH(free_device(&not_ours), "this build has no CUDA backend");
}

}  // namespace
}  // namespace millrace::cuda
