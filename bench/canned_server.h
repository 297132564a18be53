// The least that any server must do to answer: one thread that waits, reads a request without
// looking at it and sends bytes that lie ready. What it reaches with the same client on the same
// cores is the machine's limit, beside which a real server's figures are read.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "http/address.h"

namespace millrace::bench {

struct CannedAnswer {
  size_t num_request_bytes = 0;     // all requests are this long
  std::vector<std::string> pieces;  // of the response: each is sent by a system call of its own
  // From each piece to the next; after the last it comes again, without end. none: all at once.
  std::optional<Duration> period = {};
};

// A process of its own, so that its CPU time is apart. Ends with this object.
class CannedServer {
 public:
  // `like`: over TCP at a port of its own, or over a Unix socket beside that one. The error tells
  // what the system refused.
  static Result<CannedServer> start(
      const CannedAnswer& answer, const http::Address& like, int core
  );
  CannedServer(CannedServer&& other) noexcept;
  CannedServer& operator=(CannedServer&&) = delete;
  ~CannedServer();

  pid_t pid() const { return pid_; }
  const http::Address& address() const { return address_; }

 private:
  CannedServer(pid_t pid, http::Address address) : pid_(pid), address_(std::move(address)) {}

  pid_t pid_;  // 0: moved from
  http::Address address_;
};

}  // namespace millrace::bench
