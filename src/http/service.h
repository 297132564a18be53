// What all connections of one server share, and how a routed request is admitted.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/byte_budget.h"
#include "http/cors.h"
#include "http/limits.h"
#include "http/request.h"
#include "http/response.h"
#include "http/router.h"
#include "http/status.h"
#include "http/transport.h"

namespace millrace::http {

// Shapes the body of every error that this layer itself finds. The connection adds what belongs to
// the protocol (allow, retry-after, connection). Called on any I/O thread.
using ErrorRenderer = std::function<Response(const Refusal&)>;

// Decides on a request after routing and before its body is read: authorization, rate, overload.
// nullopt admits it. Called on any I/O thread; must not block. `request.body` is still empty.
using Guard = std::function<std::optional<Response>(const Request& request, const Route& route)>;

// One line, with nothing of the request in it, about what no response can tell. Any I/O thread.
using Log = std::function<void(std::string_view line)>;

struct Service {
  HttpLimits limits;
  Router router;
  ErrorRenderer render_error;
  Guard guard;  // may be empty
  CorsPolicy cors;
  Log log;  // may be empty
  std::string server_name;
  std::optional<TlsContext> tls;
  std::unique_ptr<ByteBudget> bodies;  // being received; none: without a bound
  std::atomic<bool> is_draining = false;

  void log_line(std::string_view line) const {
    if (log) log(line);
  }

  // The default: the message as plain text.
  static Response render_plain(const Refusal& refusal);

  // What answers this request: a route, filled into request.path_values, or a response at once.
  // `is_surplus`: the connection is beyond the maximum, only essential routes answer.
  std::variant<const Route*, Response> admit(Request& request, bool is_surplus) const;

  // render_error, with the plain rendering should it throw.
  Response render(const Refusal& refusal) const;
};

}  // namespace millrace::http
