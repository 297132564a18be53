// Any bytes into the request parser. Beyond "no crash, no unbounded memory": the outcome must not
// depend on how the bytes are split, an accepted request must keep the parser's promises, and
// Boost.Beast, another implementation, must read the same request from the same bytes.
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "http/request_parser.h"

namespace millrace::http {
namespace {

namespace beast_http = boost::beast::http;

HttpLimits small_limits() {
  HttpLimits limits;
  limits.header_bytes_max = 2048;
  limits.target_bytes_max = 256;
  limits.num_headers_max = 20;
  limits.body_bytes_max = 4096;
  limits.num_chunks_max = 50;
  return limits;
}

void check_promises(const Request& request, const HttpLimits& limits) {
  const std::string& path = request.path();
  CHECK(path == "*" || path.starts_with('/'), "paths are absolute");
  CHECK(path == "*" || path.find("//") == path.npos, "no empty segments");
  CHECK((path + "/").find("/../") == path.npos, "no segment leads up");
  CHECK(path.find('\0') == path.npos, "no NUL");
  CHECK(request.head.num_headers() <= limits.num_headers_max, "the fields are bounded");
  CHECK(request.body.size() <= limits.body_bytes_max, "the body is bounded");
  for (size_t i = 0; i < request.head.num_headers(); ++i) {
    const std::string_view value = request.head.header_value(i);
    CHECK(value.find_first_of(std::string_view("\r\n\0", 3)) == value.npos, "fields are clean");
    CHECK(!request.head.header_name(i).empty(), "fields have names");
  }
}

// What Beast makes of the bytes that we took for one request.
void check_against_beast(const Request& request, std::string_view bytes) {
  if (bytes.starts_with("\r\n")) bytes.remove_prefix(2);
  beast_http::request_parser<beast_http::string_body> theirs;
  theirs.eager(true);
  boost::system::error_code error;
  size_t num_used = 0;
  while (!error && num_used < bytes.size() && !theirs.is_done()) {
    num_used += theirs.put(boost::asio::buffer(bytes.substr(num_used)), error);
  }
  // We skip extensions of chunks by their line; Beast parses them.
  if (error == beast_http::error::bad_chunk_extension) return;
  // It parses the old Proxy-Connection like Connection; to us it is any field.
  if (request.header("proxy-connection")) return;
  CHECK(!error, error.message());
  CHECK(theirs.is_done(), "the request ends where we say");
  CHECK(num_used == bytes.size(), "the request ends where we say");
  CHECK(std::string_view(theirs.get().method_string()) == request.method(), "the same method");
  if (request.head.coding() == ContentCoding::kIdentity) {
    CHECK(theirs.get().body() == request.body, "the same body");
  }
  for (size_t i = 0; i < request.head.num_headers(); ++i) {
    const auto name = request.head.header_name(i);
    CHECK(std::string_view(theirs.get()[name]) == *request.header(name), "the same fields");
  }
}

// Feeds all bytes, at most `step` at a time, and describes what came out.
std::string parse(std::string_view bytes, size_t step, bool is_compared) {
  const HttpLimits limits = small_limits();
  RequestParser parser(limits);
  std::string outcome;
  size_t begin = 0;
  size_t at = 0;
  while (at < bytes.size() && parser.state() != ParserState::kRefused) {
    at += parser.feed(bytes.substr(at, step));
    if (parser.state() == ParserState::kHeadComplete) parser.read_body();
    if (parser.state() != ParserState::kComplete) continue;
    const Request request = parser.take();
    check_promises(request, limits);
    if (is_compared) check_against_beast(request, bytes.substr(begin, at - begin));
    begin = at;
    outcome.append(request.method()).append(request.path()).append(request.body).append("\n");
  }
  if (parser.state() == ParserState::kRefused) outcome += std::to_string(parser.refusal().status);
  return outcome;
}

}  // namespace
}  // namespace millrace::http

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string whole = millrace::http::parse(bytes, bytes.size() + 1, true);
  const size_t step = size == 0 ? 1 : 1 + data[0] % 7;
  CHECK(millrace::http::parse(bytes, step, false) == whole, "splits change nothing");
  return 0;
}
