// The head of a request: its line and its fields, checked against RFC 9112 more strictly than the
// RFC asks of a server, because whatever two parsers read differently can be used for smuggling.
// Our own and not Boost.Beast's: with these checks on top of Beast there would be two
// parsers here as well. Beast is the second opinion in http_fuzz instead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "http/limits.h"
#include "http/status.h"
#include "http/target.h"

namespace millrace::http {

enum class BodyFraming { kNone, kLength, kChunked };
enum class ContentCoding { kIdentity, kGzip };

// Owns its bytes; the views that it gives live as long as it is not moved or destroyed.
class RequestHead {
 public:
  std::string_view method() const { return view(method_); }
  bool is_http_1_0() const { return is_http_1_0_; }
  // Percent-decoded and canonical; what the router and every check must use.
  const std::string& path() const { return target_.path; }
  const std::string& query() const { return target_.query; }

  // The value of the first field of that name, in any case, without the spaces around it.
  std::optional<std::string_view> header(std::string_view name) const;
  size_t num_headers() const { return fields_.size(); }
  std::string_view header_name(size_t i) const { return view(fields_[i].name); }
  std::string_view header_value(size_t i) const { return view(fields_[i].value); }

  BodyFraming framing() const { return framing_; }
  uint64_t content_length() const { return content_length_; }
  ContentCoding coding() const { return coding_; }
  bool expects_continue() const { return expects_continue_; }
  bool is_keep_alive() const { return is_keep_alive_; }

 private:
  friend class HeadReader;
  struct Slice {
    uint32_t begin = 0;
    uint32_t size = 0;
  };
  struct Field {
    Slice name;
    Slice value;
  };
  std::string_view view(Slice slice) const {
    return std::string_view(bytes_).substr(slice.begin, slice.size);
  }

  std::string bytes_;  // the head as sent
  Slice method_;
  Slice raw_target_;
  std::vector<Field> fields_;
  Target target_;
  BodyFraming framing_ = BodyFraming::kNone;
  ContentCoding coding_ = ContentCoding::kIdentity;
  uint64_t content_length_ = 0;
  bool is_http_1_0_ = false;
  bool expects_continue_ = false;
  bool is_keep_alive_ = true;
};

// Judges a request line (without its CRLF) as soon as it is there: HTTP/0.9 and other protocols
// send no more, and must not be waited for. nullopt: nothing is wrong with it.
std::optional<Refusal> check_request_line(std::string_view line, const HttpLimits& limits);

// Parses a whole head: a request line, fields and an empty line, each ended by CRLF.
// REQUIRES: each LF of `bytes` follows a CR, and the only empty line is the last.
std::variant<RequestHead, Refusal> parse_head(std::string bytes, const HttpLimits& limits);

// Whether a field may stand behind a chunked body: not what frames, routes or authorizes a message
// (RFC 9110, 6.5.1), since that was decided long before.
bool may_be_trailer(std::string_view name);

// Checks one field line without its CRLF and gives the place of its colon: a token, directly a
// colon, then a value without control characters. nullopt: malformed (or folded).
std::optional<size_t> find_field_colon(std::string_view line);

}  // namespace millrace::http
