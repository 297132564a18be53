#include "server/model_device.h"

#include <gtest/gtest.h>

#include "cuda/runtime.h"

namespace millrace {
namespace {

TEST(ModelDevice, IsTheProcessorWhereNothingElseIsAskedFor) {
  for (const DeviceChoice choice : {DeviceChoice::kAuto, DeviceChoice::kCpu}) {
    const Result<ModelDevice> device = choose_device(choice);
    ASSERT_TRUE(device) << device.error().message;
    EXPECT_EQ(*device, ModelDevice::kCpu);
  }
}

TEST(ModelDevice, SaysWhyThereIsNoCudaDevice) {
  if (cuda::find_device(0)) GTEST_SKIP() << "this machine has a CUDA device";
  const Result<ModelDevice> device = choose_device(DeviceChoice::kCuda);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(device.error().message.starts_with("no CUDA device: ")) << device.error().message;
  EXPECT_EQ(device.error().message.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace millrace
