#include "loadgen/gpu_meter.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/test_folder.h"

namespace millrace::bench {
namespace {

using std::chrono::milliseconds;

TEST(GpuMeter, AddsUpTheGpusOfAMachine) {
  const GpuUse expected = {
      .utilization = 0.75, .memory_bytes = 3.0 * 1024 * 1048576, .watts = 400.5};
  EXPECT_EQ(parse_gpu_lines("100, 2048, 300.25\n50, 1024, 100.25\n"), expected);
}

TEST(GpuMeter, LeavesOutWhatAGpuDoesNotSay) {
  const std::optional<GpuUse> use = parse_gpu_lines("[N/A], 10, [Not Supported]\r\n20, 10, [N/A]");
  ASSERT_TRUE(use.has_value());
  EXPECT_EQ(use->utilization, 0.2);
  EXPECT_EQ(use->memory_bytes, 20.0 * 1048576);
  EXPECT_FALSE(use->watts.has_value());
}

TEST(GpuMeter, KnowsWhatIsNoAnswer) {
  EXPECT_FALSE(parse_gpu_lines("").has_value());
  EXPECT_FALSE(parse_gpu_lines("No devices were found\n").has_value());
  EXPECT_FALSE(parse_gpu_lines("1, 2\n1, 2, 3, 4\n").has_value());
}

// A stand-in for nvidia-smi: a script of its own, that goes with the test.
class GpuMeterProgram : public testing::Test {
 protected:
  void write(const std::string& commands) const {
    folder_.write("nvidia-smi", "#!/bin/sh\n" + commands + '\n');
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
  }

  const TestFolder folder_;
  const std::string path_ = folder_.path("nvidia-smi");
};

TEST_F(GpuMeterProgram, AsksItAsNvidiaSmiIsAsked) {
  write(
      "[ \"$1\" = --query-gpu=utilization.gpu,memory.used,power.draw ] || exit 1\n"
      "[ \"$2\" = --format=csv,noheader,nounits ] || exit 1\necho noise >&2\necho '10, 20, 30'"
  );
  GpuMeter meter({.program = path_, .timeout = std::chrono::seconds(30)});
  const std::optional<GpuUse> use = meter.read();
  ASSERT_TRUE(use.has_value());
  EXPECT_EQ(use->utilization, 0.1);
  EXPECT_EQ(use->watts, 30.0);
}

TEST_F(GpuMeterProgram, AsksOnceInAPeriod) {
  write("echo '10, 20, 30'");
  GpuMeter meter(
      {.program = path_, .timeout = std::chrono::seconds(30), .period = std::chrono::hours(1)}
  );
  ASSERT_TRUE(meter.read().has_value());
  write("echo '90, 20, 30'");
  EXPECT_EQ(meter.read()->utilization, 0.1);
}

TEST_F(GpuMeterProgram, GivesUpOnOneThatFailsOrHangs) {
  write("echo '10, 20, 30'; exit 3");
  EXPECT_FALSE(GpuMeter({.program = path_, .timeout = std::chrono::seconds(30)}).read());
  write("exec sleep 600");
  EXPECT_FALSE(GpuMeter({.program = path_, .timeout = milliseconds(20)}).read());
}

TEST(GpuMeter, DoesWithoutAProgram) {
  GpuMeter meter({.program = "no-such-program-as-this", .period = milliseconds(0)});
  EXPECT_FALSE(meter.read().has_value());
  EXPECT_FALSE(meter.read().has_value());
}

}  // namespace
}  // namespace millrace::bench
