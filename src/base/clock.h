// Time as the program measures it. Monotonic: a step of the wall clock changes nothing.
#pragma once

#include <chrono>

namespace millrace {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

[[nodiscard]] inline double to_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}
[[nodiscard]] inline double to_milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace millrace
