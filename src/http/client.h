// A small HTTP/1.1 client for command-line use: whole answers and streams of server-sent events,
// over TCP, TLS or a Unix socket. Blocking; one request at a time; keeps its connection.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "http/address.h"
#include "http/response.h"
#include "http/sse_reader.h"

namespace millrace::http {

// The place of a server and a prefix for every path.
struct BaseUrl {
  Address address;
  bool is_tls = false;
  std::string path;  // "" or "/v1": starts with '/', does not end with one

  // What stands in the Host field.
  std::string host_field() const;
};

// "http://host:port/path", "https://...", or "unix:PATH" (no path prefix). IPv6 in brackets.
// Without a port 80 and 443. User information, queries and fragments are refused.
Result<BaseUrl> parse_base_url(std::string_view text);

struct ClientOptions {
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds idle_timeout{300'000};  // without a byte from the server
  size_t body_bytes_max = size_t{256} << 20;
  size_t head_bytes_max = size_t{64} << 10;
  std::string ca_file;      // PEM; empty: the system's authorities
  bool is_verified = true;  // false: any certificate will do, for tests
};

struct ClientRequest {
  std::string method = "POST";
  std::string path;  // behind the base URL's, starts with '/'
  std::vector<Header> headers;
  std::string body;
  std::string content_type = "application/json";  // left out without a body
};

struct ClientResponse {
  int status = 0;
  std::vector<Header> headers;
  std::string body;  // empty if it was streamed

  // The first of that name, in any case.
  std::optional<std::string_view> header(std::string_view name) const;
};

// One thread calls request() and stream(); any thread calls cancel().
class HttpClient {
 public:
  static Result<HttpClient> make(BaseUrl url, ClientOptions options = {});
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  // Any status is a response; errors are what kept one from coming: kNotFound (no such host),
  // kDeadlineExceeded, kCancelled, kResourceExhausted (too large), kInvalidArgument (not HTTP, or
  // the connection failed). A kept connection that the server has closed is opened again once.
  Result<ClientResponse> request(const ClientRequest& request);

  // As request(), but the body of a text/event-stream is given to `on_event` as it comes; false
  // from it ends the stream and the connection. Any other body is returned whole.
  Result<ClientResponse> stream(
      const ClientRequest& request, const std::function<bool(const SseEvent&)>& on_event
  );

  // The request that runs now, or the next one, ends with kCancelled at once.
  void cancel();

 private:
  struct Impl;
  explicit HttpClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::http
