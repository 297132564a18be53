// Turns the bytes of one connection into requests. Knows no sockets, so that fuzzers can drive it.
// Not thread-safe; owned by the connection, called by its I/O thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/byte_budget.h"
#include "http/body_decoder.h"
#include "http/limits.h"
#include "http/request.h"
#include "http/status.h"

namespace millrace::http {

enum class ParserState {
  kHead,          // wants bytes
  kHeadComplete,  // wants read_body(): the time to route, to authorize and to refuse early
  kBody,          // wants bytes
  kComplete,      // wants take()
  kRefused,       // for good: where the next request would start is not known
};

class RequestParser {
 public:
  // Both outlive the parser. `bodies`: what all bodies that are being received share; none: no
  // bound but that of each.
  explicit RequestParser(const HttpLimits& limits, ByteBudget* bodies = nullptr)
      : limits_(&limits), bodies_(bodies) {}

  ParserState state() const { return state_; }
  // Whether a byte of the next request has come.
  bool has_started() const { return state_ != ParserState::kHead || !head_bytes_.empty(); }

  // Takes a prefix of `bytes`, up to the next change of state, and gives its length.
  // REQUIRES: state() is kHead or kBody.
  size_t feed(std::string_view bytes);

  // Complete when state() is kComplete, without its body from kHeadComplete on. When refused, what
  // there was: empty if it was the head that was refused.
  Request& request() { return request_; }

  // Goes on to the body. Afterwards kBody, or kComplete if there is none, or kRefused.
  // REQUIRES: state() is kHeadComplete.
  void read_body();

  // The request; the parser starts anew. REQUIRES: state() is kComplete.
  Request take();

  // REQUIRES: state() is kRefused.
  const Refusal& refusal() const { return *refusal_; }

 private:
  size_t skip_leading_line(std::string_view bytes);
  size_t feed_head(std::string_view bytes);
  bool scan_lines();
  void check_line(std::string_view line);
  void check_first_byte(char c);
  void check_sizes(size_t num_bytes);
  void end_head();
  void take_body_state();
  void refuse_with(Refusal refusal);

  const HttpLimits* limits_;
  ByteBudget* bodies_;
  ParserState state_ = ParserState::kHead;
  std::string head_bytes_;
  size_t line_begin_ = 0;   // in head_bytes_, of the line not yet ended
  size_t num_scanned_ = 0;  // bytes of head_bytes_ known to hold no further end of line
  size_t num_lines_ = 0;
  size_t num_leading_bytes_ = 0;  // of the one empty line that may stand before a request
  Request request_;
  std::optional<BodyDecoder> body_;
  std::optional<Refusal> refusal_;
};

}  // namespace millrace::http
