// Every bound that the HTTP layer puts on what comes from outside, in one place, validated once.
#pragma once

#include <chrono>
#include <cstddef>

#include "base/result.h"

namespace millrace::http {

struct HttpLimits {
  // A request. Over the limit: the status that stands beside it, then the connection closes.
  size_t header_bytes_max = size_t{64} << 10;  // request line and fields; 431
  size_t num_headers_max = 100;                // 431
  size_t target_bytes_max = size_t{8} << 10;   // 414
  size_t body_bytes_max = size_t{64} << 20;    // as sent and as decompressed; 413
  size_t num_chunks_max = 65536;               // 413

  // Time. The head has one deadline in all; body and answer must make progress: the deadline moves
  // on when `progress_bytes_min` more bytes have passed, so one byte every 29 s does not hold it.
  std::chrono::milliseconds header_timeout{10'000};      // 408; silent close if nothing was sent
  std::chrono::milliseconds body_idle_timeout{30'000};   // 408
  std::chrono::milliseconds keep_alive_timeout{75'000};  // silent close between requests
  std::chrono::milliseconds write_timeout{30'000};       // the connection is cut
  std::chrono::milliseconds linger_timeout{2'000};       // after a refusal: discard, then close
  size_t progress_bytes_min = 1024;

  // Memory of one connection.
  // Of a stream, not yet taken by the socket; then cut. Twice its largest event where that is more.
  size_t stream_buffer_bytes_max = size_t{256} << 10;
  size_t socket_send_bytes = size_t{256} << 10;  // SO_SNDBUF, so that slow readers show

  // All connections together. Beyond the maximum a few surplus ones are accepted, each for one
  // request: essential routes (health) answer, all others 503. Beyond those, accepting pauses.
  size_t num_connections_max = 65536;
  size_t num_surplus_connections_max = 16;
  // Bodies that are being received, decompressed, but for the first 64 KiB of each; then 503. At
  // least one may be as large as body_bytes_max.
  size_t all_bodies_bytes_max = size_t{256} << 20;
  // Instead of header_timeout: a crowd that says nothing must not keep the health probes waiting
  // that stand behind it.
  std::chrono::milliseconds surplus_header_timeout{500};
};

// The error's `where` is the name of the field.
Result<void> validate(const HttpLimits& limits);

}  // namespace millrace::http
