// The least that any server must do to answer: one thread that waits, reads a request without
// looking at it and sends bytes that lie ready. What it reaches with the same client on the same
// cores is the machine's limit, beside which a real server's figures are read.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace millrace::bench {

struct CannedAnswer {
  size_t num_request_bytes = 0;     // all requests are this long
  std::vector<std::string> pieces;  // of the response: each is sent by a system call of its own
};

// A process of its own, so that its CPU time is apart. Ends with this object.
class CannedServer {
 public:
  // The error tells what the system refused.
  static Result<CannedServer> start(const CannedAnswer& answer, int core);
  CannedServer(CannedServer&& other) noexcept;
  CannedServer& operator=(CannedServer&&) = delete;
  ~CannedServer();

  pid_t pid() const { return pid_; }
  uint16_t port() const { return port_; }

 private:
  CannedServer(pid_t pid, uint16_t port) : pid_(pid), port_(port) {}

  pid_t pid_;  // 0: moved from
  uint16_t port_;
};

}  // namespace millrace::bench
