// The frame of one HTTP/1.1 answer (RFC 9112): its head, and which of the bytes that follow are its
// body. Strict: a frame that is not one makes every time measured on it worthless. Pieces of the
// body are not copied.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::bench {

class AnswerFraming {
 public:
  enum class Step {
    kMore,  // all bytes were taken; the answer goes on
    kBody,  // `body` is the next piece, not empty
    kEnd,   // the answer is complete; bytes that are left belong to none
    kBad,   // problem() says why: the connection is of no use any more
  };

  // Takes bytes from the front.
  Step next(std::string_view& bytes, std::string_view& body);

  // The connection has ended. True: so has the answer, properly.
  bool end_of_connection();

  // Expects another answer.
  void reset();

  bool has_started() const { return has_started_; }  // a byte of it came
  int status() const { return status_; }             // 0: not yet
  bool is_event_stream() const { return is_event_stream_; }
  bool is_complete() const { return state_ == State::kComplete; }
  // Whether the connection may take another request behind this answer.
  bool is_keep_alive() const { return is_keep_alive_; }
  const std::string& problem() const { return problem_; }

 private:
  enum class State {
    kHead,
    kSizedBody,
    kBodyUntilClose,
    kChunkSize,
    kChunkData,
    kChunkEnd,  // the CR LF after a chunk
    kTrailer,   // fields after the last chunk, which are dropped, and an empty line
    kComplete,
    kBad,
  };

  Step bad(std::string problem);
  bool take_head(std::string_view& bytes);
  bool read_head(std::string_view head);
  bool read_status_line(std::string_view line);
  bool read_field(std::string_view line);
  void start_body();
  bool take_line(std::string_view& bytes);
  bool end_line(std::string_view line);
  bool read_chunk_size(std::string_view line);

  State state_ = State::kHead;
  bool has_started_ = false;
  std::string line_;  // of the head or of a chunk's frame, while it is incomplete
  int status_ = 0;
  bool is_event_stream_ = false;
  bool is_keep_alive_ = true;
  bool is_chunked_ = false;
  bool has_length_ = false;
  uint64_t num_left_ = 0;  // bytes of the body or the chunk
  size_t num_trailer_bytes_ = 0;
  std::string problem_;
};

}  // namespace millrace::bench
