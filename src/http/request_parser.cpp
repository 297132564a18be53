#include "http/request_parser.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.h"
#include "http/characters.h"

namespace millrace::http {
namespace {

// Copied at a time while the end of the head is looked for: larger than nearly every head, small
// enough that a long row of pipelined requests is not copied again for each of them.
constexpr size_t kHeadStepBytes = 4096;
// Beside the target, a request line holds a method, two spaces and a version.
constexpr size_t kLineBytesBesideTarget = 64;

constexpr char kTlsHandshakeRecord = 0x16;

}  // namespace

size_t RequestParser::feed(std::string_view bytes) {
  CHECK(state_ == ParserState::kHead || state_ == ParserState::kBody, "the parser takes no bytes");
  if (state_ == ParserState::kHead) return feed_head(bytes);
  const size_t num_used = body_->feed(bytes);
  take_body_state();
  return num_used;
}

// RFC 9112, 2.2: an empty line before the request line is what some old clients send after a body.
size_t RequestParser::skip_leading_line(std::string_view bytes) {
  constexpr std::string_view kEmptyLine = "\r\n";
  size_t num_used = 0;
  while (num_used < bytes.size() && num_leading_bytes_ < kEmptyLine.size()) {
    const bool is_next = bytes[num_used] == kEmptyLine[num_leading_bytes_];
    if (!is_next && num_leading_bytes_ > 0) refuse_with(refuse_malformed("a CR without its LF"));
    if (!is_next) break;
    ++num_leading_bytes_;
    ++num_used;
  }
  return num_used;
}

size_t RequestParser::feed_head(std::string_view bytes) {
  size_t num_used = 0;
  if (head_bytes_.empty()) {
    num_used = skip_leading_line(bytes);
    if (num_used == bytes.size() || state_ == ParserState::kRefused) return num_used;
    check_first_byte(bytes[num_used]);
  }
  while (num_used < bytes.size() && state_ == ParserState::kHead) {
    const std::string_view step = bytes.substr(num_used, kHeadStepBytes);
    const size_t size_before = head_bytes_.size();
    head_bytes_.append(step);
    if (scan_lines()) {
      num_used += line_begin_ - size_before;
      head_bytes_.resize(line_begin_);
      end_head();
      return num_used;
    }
    num_used += step.size();
  }
  return num_used;
}

// Whether the empty line has come. Each line is looked at as soon as it ends, so that a peer that
// will never send an empty line (HTTP/0.9, bare LFs) is refused at once.
bool RequestParser::scan_lines() {
  while (state_ == ParserState::kHead) {
    const size_t lf = head_bytes_.find('\n', num_scanned_);
    num_scanned_ = lf == std::string::npos ? head_bytes_.size() : lf + 1;
    // First of all, so that it is the same refusal however the bytes are split.
    check_sizes(num_scanned_);
    if (lf == std::string::npos || state_ == ParserState::kRefused) return false;
    if (lf == line_begin_ || head_bytes_[lf - 1] != '\r') {
      refuse_with(refuse_malformed("lines must end with CR LF"));
      return false;
    }
    const std::string_view line =
        std::string_view(head_bytes_).substr(line_begin_, lf - 1 - line_begin_);
    line_begin_ = lf + 1;
    if (line.empty() && num_lines_ > 0) return true;
    check_line(line);
    ++num_lines_;
  }
  return false;
}

void RequestParser::check_line(std::string_view line) {
  if (num_lines_ == 0) {
    if (std::optional<Refusal> refusal = check_request_line(line, *limits_)) {
      refuse_with(std::move(*refusal));
    }
  } else if (num_lines_ > limits_->num_headers_max) {
    refuse_with(refuse(431, "too_many_headers", "the request has too many header fields"));
  }
}

void RequestParser::check_first_byte(char c) {
  if (is_token_char(c)) return;
  refuse_with(refuse_malformed("expected a request line: METHOD target HTTP/1.1"));
  if (c != kTlsHandshakeRecord) return;
  refusal_->code = "tls_on_plain_port";
  refusal_->message = "the peer speaks TLS to a port that does not";
  refusal_->is_answered = false;
}

void RequestParser::check_sizes(size_t num_bytes) {
  if (num_lines_ == 0 && num_bytes > limits_->target_bytes_max + kLineBytesBesideTarget) {
    refuse_with(refuse(414, "uri_too_long", "the request target is too long"));
  } else if (num_bytes > limits_->header_bytes_max) {
    refuse_with(refuse(431, "headers_too_large", "the request's header fields are too large"));
  }
}

void RequestParser::end_head() {
  auto head = parse_head(std::move(head_bytes_), *limits_);
  head_bytes_ = {};
  if (auto* refusal = std::get_if<Refusal>(&head)) return refuse_with(std::move(*refusal));
  request_.head = std::move(*std::get_if<RequestHead>(&head));
  const std::optional<std::string_view> id = request_.header("x-request-id");
  if (id && is_valid_request_id(*id)) request_.id = *id;
  state_ = ParserState::kHeadComplete;
}

void RequestParser::read_body() {
  CHECK(state_ == ParserState::kHeadComplete, "the body comes after the head");
  body_.emplace(request_.head, *limits_, bodies_);
  state_ = ParserState::kBody;
  take_body_state();
}

void RequestParser::take_body_state() {
  if (body_->refusal()) {
    refuse_with(*body_->refusal());
  } else if (body_->is_complete()) {
    request_.body = body_->take_body();
    body_.reset();
    state_ = ParserState::kComplete;
  }
}

Request RequestParser::take() {
  CHECK(state_ == ParserState::kComplete, "only a complete request is taken");
  Request request = std::move(request_);
  request_ = {};
  state_ = ParserState::kHead;
  line_begin_ = num_scanned_ = num_lines_ = num_leading_bytes_ = 0;
  return request;
}

void RequestParser::refuse_with(Refusal refusal) {
  state_ = ParserState::kRefused;
  refusal_ = std::move(refusal);
  head_bytes_ = {};
  body_.reset();
}

}  // namespace millrace::http
