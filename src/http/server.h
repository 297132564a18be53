// An HTTP/1.1 server over TCP, TLS and Unix sockets: routes requests to handlers, which answer at
// once or later, whole or as a stream, from any thread. RFC 9110 and 9112, read strictly; knows
// nothing of what is served.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "http/cors.h"
#include "http/counters.h"
#include "http/limits.h"
#include "http/router.h"
#include "http/service.h"

namespace millrace::http {

struct TlsFiles {
  std::string cert_file;  // PEM, with the chain
  std::string key_file;   // PEM
};

struct HttpServerOptions {
  // "127.0.0.1:8000", "[::1]:8000", "unix:/run/millrace.sock"; port 0: the system chooses.
  std::vector<std::string> addresses;
  std::optional<TlsFiles> tls;  // for all TCP addresses
  size_t num_threads = 1;
  HttpLimits limits;
  std::string server_name = "millrace";
  Router router;
  ErrorRenderer render_error = Service::render_plain;
  Guard guard;  // empty: everyone is admitted
  CorsPolicy cors;
  Log log;  // empty: nothing is logged
};

// Thread-safe, but drain(), stop_accepting(), stop() and the destructor must not be called on an
// I/O thread (from a handler): they wait for those threads.
class HttpServer {
 public:
  // Listens and serves when it returns. The error's `where` names the option or the address.
  static Result<std::unique_ptr<HttpServer>> start(HttpServerOptions options);
  // As stop().
  ~HttpServer();

  // The addresses as they are bound, in the order of the options.
  const std::vector<std::string>& addresses() const;
  // The port of the first TCP address; nullopt if there is none.
  std::optional<uint16_t> port() const;

  // No new connections; those that exist go on. Idempotent.
  void stop_accepting();

  // stop_accepting(), closes idle connections, lets each other one finish its current answer, and
  // waits for that. Returns how many connections were still open at `deadline` and were cut.
  size_t drain(TimePoint deadline);

  // Closes every connection (handlers learn that their clients are gone) and joins the threads.
  // Idempotent. Exchanges may live on; what they answer goes nowhere.
  void stop();

  CountersSnapshot counters() const;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::http
