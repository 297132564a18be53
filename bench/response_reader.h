// Reads HTTP/1.1 responses as fast as a load generator must: no JSON, no copies; server-sent events
// are counted by the blank lines that end them. Framing is checked strictly all the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace::bench {

// How many "\n\n" lie in `bytes`, which `before` stands in front of. An event's JSON has no raw
// newline, so in a stream of events "data: ...\n\n" this is their number.
size_t count_blank_lines(char before, std::string_view bytes);

// One response at a time of one connection. Used by one thread.
class ResponseReader {
 public:
  // Takes bytes up to the end of the response and says how many. The error says how the framing is
  // wrong; the connection is of no use then.
  // REQUIRES: !is_complete().
  Result<size_t> feed(std::string_view bytes);

  bool is_complete() const { return state_ == State::kComplete; }
  int status() const { return status_; }
  bool is_event_stream() const { return is_event_stream_; }
  bool must_close() const { return must_close_; }
  size_t num_events() const { return num_events_; }
  // Whether the body ends with the event "[DONE]".
  bool ends_with_done() const;
  // The body so far, without framing; empty unless it was asked for by next().
  const std::string& body() const { return body_; }

  // Forgets this response and expects another.
  void next(bool keeps_body);

 private:
  enum class State {
    kHead,
    kSizedBody,
    kChunkSize,
    kChunkData,
    kChunkEnd,  // the CR LF after a chunk
    kTrailer,   // after the last chunk: only the empty line is expected
    kComplete,
  };

  Result<size_t> feed_head(std::string_view bytes);
  Result<void> read_head();
  Result<void> read_field(std::string_view name, std::string_view value);
  Result<size_t> feed_line(std::string_view bytes);
  Result<void> read_line();
  size_t feed_data(std::string_view bytes);
  void take_body(std::string_view bytes);

  State state_ = State::kHead;
  std::string line_;  // of the head or of a chunk's frame, while it is incomplete
  int status_ = 0;
  bool is_event_stream_ = false;
  bool is_chunked_ = false;
  bool must_close_ = false;
  size_t num_left_ = 0;  // bytes of the body or the chunk
  size_t num_events_ = 0;
  std::string tail_;  // the last bytes of the body
  bool keeps_body_ = false;
  std::string body_;
};

}  // namespace millrace::bench
