// A blocking client for what is asked of a server beside the load: JSON in and out, the target's
// key and headers, errors in one line. One thread at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "http/client.h"
#include "loadgen/target.h"

namespace millrace::bench {

class ServerClient {
 public:
  // `timeout`: without a byte from the server.
  static Result<ServerClient> make(const Target& target, std::chrono::milliseconds timeout);

  // Paths are behind the server's root. Any status is a response.
  Result<http::ClientResponse> get(const std::string& path);
  Result<http::ClientResponse> post(const std::string& path, std::string body);

  // The JSON of a 2xx answer. kUnsupported: there is nothing at this path (404, 405, 501).
  Result<json::value> get_json(const std::string& path);
  Result<json::value> post_json(const std::string& path, const json::value& body);

 private:
  ServerClient(http::HttpClient client, std::vector<http::Header> headers)
      : client_(std::move(client)), headers_(std::move(headers)) {}

  http::HttpClient client_;
  std::vector<http::Header> headers_;
};

inline bool is_success(const http::ClientResponse& response) {
  return response.status >= 200 && response.status < 300;
}
// There is nothing at this path.
inline bool is_missing(const http::ClientResponse& response) {
  return response.status == 404 || response.status == 405 || response.status == 501;
}

// "HTTP 503: loading": the status with what the server said, in one line.
std::string describe(const http::ClientResponse& response);

}  // namespace millrace::bench
