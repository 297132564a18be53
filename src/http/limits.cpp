#include "http/limits.h"

#include <fmt/format.h>

#include <array>

namespace millrace::http {
namespace {

struct Range {
  const char* name;
  size_t value;
  size_t min;
  size_t max;
};

struct Timeout {
  const char* name;
  std::chrono::milliseconds value;
};

// Offsets into a head are 32-bit; no sane head comes near.
constexpr size_t kHeaderBytesCeiling = size_t{16} << 20;
constexpr size_t kBodyBytesCeiling = size_t{1} << 40;
constexpr size_t kCountCeiling = size_t{1} << 24;
constexpr std::chrono::milliseconds kTimeoutCeiling = std::chrono::hours(24);

}  // namespace

Result<void> validate(const HttpLimits& limits) {
  const std::array ranges = {
      Range{"header_bytes_max", limits.header_bytes_max, 256, kHeaderBytesCeiling},
      Range{"num_headers_max", limits.num_headers_max, 1, kCountCeiling},
      Range{"target_bytes_max", limits.target_bytes_max, 16, limits.header_bytes_max},
      Range{"body_bytes_max", limits.body_bytes_max, 0, kBodyBytesCeiling},
      Range{"num_chunks_max", limits.num_chunks_max, 1, kCountCeiling},
      Range{"progress_bytes_min", limits.progress_bytes_min, 1, kCountCeiling},
      Range{"stream_buffer_bytes_max", limits.stream_buffer_bytes_max, 4096, kBodyBytesCeiling},
      Range{"socket_send_bytes", limits.socket_send_bytes, 4096, size_t{1} << 30},
      Range{"num_connections_max", limits.num_connections_max, 1, kCountCeiling},
      Range{"num_surplus_connections_max", limits.num_surplus_connections_max, 0, kCountCeiling},
      Range{"all_bodies_bytes_max", limits.all_bodies_bytes_max, 0, kBodyBytesCeiling},
  };
  for (const Range& range : ranges) {
    if (range.value < range.min || range.value > range.max) {
      return invalid_argument(
          fmt::format("expected {} to {}, got {}", range.min, range.max, range.value), range.name
      );
    }
  }
  const std::array timeouts = {
      Timeout{"header_timeout", limits.header_timeout},
      Timeout{"body_idle_timeout", limits.body_idle_timeout},
      Timeout{"keep_alive_timeout", limits.keep_alive_timeout},
      Timeout{"write_timeout", limits.write_timeout},
      Timeout{"linger_timeout", limits.linger_timeout},
      Timeout{"surplus_header_timeout", limits.surplus_header_timeout},
  };
  for (const Timeout& timeout : timeouts) {
    if (timeout.value.count() < 1 || timeout.value > kTimeoutCeiling) {
      return invalid_argument(
          fmt::format("expected 1 ms to 24 h, got {} ms", timeout.value.count()), timeout.name
      );
    }
  }
  return {};
}

}  // namespace millrace::http
