// What the GPUs of this machine do, as nvidia-smi tells. Where it is not installed there are none.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace millrace::bench {

// All GPUs together.
struct GpuUse {
  std::optional<double> utilization;  // 0 to 1, the mean
  std::optional<double> memory_bytes;
  std::optional<double> watts;

  friend bool operator==(const GpuUse&, const GpuUse&) = default;
};

// Lines of "utilization.gpu, memory.used, power.draw" in %, MiB and W without their units, one for
// each GPU. What a GPU does not say ("[N/A]") is left out; none: no line is such a line.
std::optional<GpuUse> parse_gpu_lines(std::string_view csv);

// Not thread-safe. A reading runs a program, which takes some 50 ms: within `period` the last one
// is given again.
class GpuMeter {
 public:
  struct Options {
    std::string program = "nvidia-smi";  // looked for as a shell does
    std::chrono::milliseconds timeout{2'000};
    std::chrono::milliseconds period{1'000};
  };
  GpuMeter();
  explicit GpuMeter(Options options);

  // none: no program, no GPU, or no answer in time. A program that is not there is not tried again.
  std::optional<GpuUse> read();

 private:
  Options options_;
  bool is_there_ = true;
  std::optional<TimePoint> read_at_;
  std::optional<GpuUse> last_;
};

}  // namespace millrace::bench
