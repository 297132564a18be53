// Where connections go: the server's addresses, looked up once, and its TLS. Immutable after it is
// made, so any thread may use it.
#pragma once

#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "http/transport.h"
#include "http/unique_fd.h"
#include "loadgen/target.h"
#include "results/request_record.h"

namespace millrace::bench {

// Why a connection could not be, or did not last.
struct ConnectionFailure {
  FailureKind kind = FailureKind::kConnect;
  std::string message;  // one line
};

struct SocketName {
  sockaddr_storage address = {};
  socklen_t size = 0;
};

class Endpoint {
 public:
  // The error: TLS cannot be set up (its authorities cannot be read). A host that cannot be found
  // is a failure of each connection.
  static Result<Endpoint> make(const Target& target);

  // A name may stand for several addresses ("localhost" for ::1 and 127.0.0.1); at least one, or
  // lookup_failure().
  const std::vector<SocketName>& names() const { return names_; }
  const std::optional<ConnectionFailure>& lookup_failure() const { return lookup_failure_; }

  // Begins to connect; `is_connected`: at once.
  std::optional<ConnectionFailure> open(
      const SocketName& name, http::UniqueFd& socket, bool& is_connected
  ) const;
  // Null: no memory.
  std::unique_ptr<http::Transport> make_transport(int socket) const;

  bool is_tls() const { return tls_.has_value(); }
  const std::string& text() const { return text_; }  // "127.0.0.1:8000", for messages

  // Of an errno of connect().
  ConnectionFailure connect_failure(int error) const;

 private:
  Endpoint() = default;
  void find_names(const http::Address& address);

  std::string text_;
  std::string host_;
  std::optional<http::TlsContext> tls_;
  std::vector<SocketName> names_;
  std::optional<ConnectionFailure> lookup_failure_;
};

}  // namespace millrace::bench
