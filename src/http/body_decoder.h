// Reads the body of one request: by its length or in chunks (RFC 9112, 6 and 7), decompressed when
// it is gzip, within the limits of HttpLimits at every byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/byte_budget.h"
#include "http/inflater.h"
#include "http/limits.h"
#include "http/request_head.h"
#include "http/status.h"

namespace millrace::http {

class BodyDecoder {
 public:
  // What comes behind it outlives the decoder. `bodies`: as RequestParser's.
  BodyDecoder(const RequestHead& head, const HttpLimits& limits, ByteBudget* bodies);

  // Takes a prefix of `bytes` and says how long it was: all of it, unless the body ended or was
  // refused.
  size_t feed(std::string_view bytes);

  bool is_complete() const { return state_ == State::kComplete; }
  const std::optional<Refusal>& refusal() const { return refusal_; }

  // REQUIRES: is_complete().
  std::string take_body();

 private:
  enum class State {
    kLength,       // the rest of a body of known length
    kChunkSize,    // within the hexadecimal size
    kChunkExtra,   // within the chunk extension, which is skipped
    kChunkSizeLf,  // a CR ended the line
    kChunkData,
    kChunkDataCr,
    kChunkDataLf,
    kTrailer,    // field lines behind the last chunk, checked and dropped
    kTrailerLf,  // a CR ended a trailer's line
    kComplete,
    kRefused,
  };

  void take_size_char(char c);
  void take_extra_char(char c);
  void take_trailer_char(char c);
  void end_size_line();
  void end_trailer_line();
  void take_line_char(char c);
  void take_data(std::string_view data);
  bool inflate(std::string_view data);
  bool hold_body();
  void complete();
  void refuse_with(Refusal refusal);

  const HttpLimits* limits_;
  State state_ = State::kLength;
  uint64_t num_bytes_left_ = 0;  // of the body, or of the chunk
  uint64_t num_bytes_sent_ = 0;  // of all data so far, before decompression
  size_t num_chunks_ = 0;
  size_t num_size_digits_ = 0;  // of the chunk size being read
  size_t num_extra_bytes_ = 0;  // of this chunk's extension
  size_t num_trailers_ = 0;
  size_t num_trailer_bytes_ = 0;
  std::string trailer_line_;
  std::string body_;
  BytesHeld held_;  // for body_, but for its first bytes
  std::optional<Inflater> inflater_;
  bool is_inflated_ = false;  // the gzip member has ended
  std::optional<Refusal> refusal_;
};

}  // namespace millrace::http
