#include "loadgen/server_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace millrace::bench {
namespace {

constexpr size_t kBodyBytesMax = size_t{64} << 20;
constexpr size_t kSaidBytesMax = 200;

// The message of an error in OpenAI's shape, SGLang's or FastAPI's; else the body.
std::string message_of(const std::string& body) {
  const Result<json::value> value = parse_json(body);
  const json::object* object = value ? value->if_object() : nullptr;
  if (object == nullptr) return body;
  if (const json::value* error = object->if_contains("error")) {
    if (error->is_string()) return std::string(error->get_string());
    if (error->is_object()) object = &error->get_object();
  }
  for (const char* name : {"message", "detail"}) {
    const json::value* text = object->if_contains(name);
    if (text != nullptr && text->is_string()) return std::string(text->get_string());
  }
  return body;
}

// One line of it, of what can be printed.
std::string one_line(std::string text) {
  text.resize(std::min(text.size(), kSaidBytesMax));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' '
  );
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

Result<json::value> read_json(const Result<http::ClientResponse>& response, std::string where) {
  if (!response) return response.error();
  if (is_missing(*response)) return unsupported(describe(*response), std::move(where));
  if (!is_success(*response)) return invalid_argument(describe(*response), std::move(where));
  Result<json::value> value = parse_json(response->body);
  if (!value) return invalid_argument("the answer is no JSON: " + value.error().message, where);
  return value;
}

}  // namespace

std::string describe(const http::ClientResponse& response) {
  const std::string said = one_line(message_of(response.body));
  if (said.empty()) return fmt::format("HTTP {}", response.status);
  return fmt::format("HTTP {}: {}", response.status, said);
}

Result<ServerClient> ServerClient::make(const Target& target, std::chrono::milliseconds timeout) {
  constexpr std::string_view kVersion = "/v1";
  http::BaseUrl root = target.url;
  if (root.path.ends_with(kVersion)) root.path.resize(root.path.size() - kVersion.size());
  Result<http::HttpClient> client = http::HttpClient::make(
      std::move(root),
      {
          .connect_timeout = target.connect_timeout,
          .idle_timeout = timeout,
          .body_bytes_max = kBodyBytesMax,
          .ca_file = target.ca_file,
          .is_verified = target.is_verified,
      }
  );
  if (!client) return client.error();
  std::vector<http::Header> headers = target.headers;
  if (!target.api_key.empty()) headers.push_back({"authorization", "Bearer " + target.api_key});
  return ServerClient(std::move(*client), std::move(headers));
}

Result<http::ClientResponse> ServerClient::get(const std::string& path) {
  return client_.request({.method = "GET", .path = path, .headers = headers_, .body = ""});
}

Result<http::ClientResponse> ServerClient::post(const std::string& path, std::string body) {
  return client_.request({.path = path, .headers = headers_, .body = std::move(body)});
}

Result<json::value> ServerClient::get_json(const std::string& path) {
  return read_json(get(path), path);
}

Result<json::value> ServerClient::post_json(const std::string& path, const json::value& body) {
  return read_json(post(path, to_json_text(body)), path);
}

}  // namespace millrace::bench
