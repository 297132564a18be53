#include "http/body_decoder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "http/characters.h"

namespace millrace::http {
namespace {

// Extensions mean nothing to us; a sender that needs more than this is not a client of ours.
constexpr size_t kChunkExtraBytesMax = 256;
// More digits than any size within any limit has; leading zeros count, so they cannot go on.
constexpr size_t kChunkSizeDigitsMax = 15;
// What is set aside at once for a body of announced length; the rest grows with what really comes.
constexpr size_t kReserveBytesMax = size_t{1} << 20;
// Of each body so much is not counted, so that large ones never keep out short ones.
constexpr size_t kUncountedBytes = size_t{64} << 10;
// What is decompressed at once: a thousand times as much can come out.
constexpr size_t kInflatedAtOnceBytes = 1024;

Refusal body_too_large() {
  return refuse(413, "content_too_large", "the body is too large");
}
Refusal malformed_chunk() {
  return refuse_malformed("the chunked body is malformed");
}

}  // namespace

BodyDecoder::BodyDecoder(const RequestHead& head, const HttpLimits& limits, ByteBudget* bodies)
    : limits_(&limits), held_(bodies) {
  if (head.coding() == ContentCoding::kGzip && head.framing() != BodyFraming::kNone) {
    inflater_.emplace(limits.body_bytes_max);
  }
  switch (head.framing()) {
    case BodyFraming::kNone:
      state_ = State::kComplete;
      break;
    case BodyFraming::kChunked:
      state_ = State::kChunkSize;
      break;
    case BodyFraming::kLength:
      num_bytes_left_ = head.content_length();
      if (num_bytes_left_ > limits.body_bytes_max) {
        refuse_with(body_too_large());
      } else if (!inflater_) {
        body_.reserve(std::min<size_t>(num_bytes_left_, kReserveBytesMax));
      }
  }
}

size_t BodyDecoder::feed(std::string_view bytes) {
  size_t i = 0;
  while (i < bytes.size() && state_ != State::kComplete && state_ != State::kRefused) {
    if (state_ == State::kLength || state_ == State::kChunkData) {
      const size_t size = std::min<uint64_t>(num_bytes_left_, bytes.size() - i);
      take_data(bytes.substr(i, size));
      i += size;
    } else {
      take_line_char(bytes[i]);
      ++i;
    }
  }
  return i;
}

std::string BodyDecoder::take_body() {
  CHECK(is_complete(), "a body is taken when it is complete");
  held_.release();
  return std::move(body_);
}

void BodyDecoder::take_line_char(char c) {
  switch (state_) {
    case State::kChunkSize:
      return take_size_char(c);
    case State::kChunkExtra:
      return take_extra_char(c);
    case State::kTrailer:
      return take_trailer_char(c);
    case State::kChunkDataCr:
      if (c != '\r') return refuse_with(malformed_chunk());
      state_ = State::kChunkDataLf;
      return;
    case State::kChunkDataLf:
      if (c != '\n') return refuse_with(malformed_chunk());
      state_ = State::kChunkSize;
      num_size_digits_ = 0;
      num_extra_bytes_ = 0;
      return;
    case State::kChunkSizeLf:
      return c == '\n' ? end_size_line() : refuse_with(malformed_chunk());
    case State::kTrailerLf:
      return c == '\n' ? end_trailer_line() : refuse_with(malformed_chunk());
    case State::kLength:
    case State::kChunkData:
    case State::kComplete:
    case State::kRefused:
      break;
  }
}

void BodyDecoder::take_size_char(char c) {
  const int digit = hex_value(c);
  if (digit >= 0) {
    if (++num_size_digits_ > kChunkSizeDigitsMax) return refuse_with(malformed_chunk());
    num_bytes_left_ = num_bytes_left_ * 16 + static_cast<uint64_t>(digit);
    return;
  }
  if (num_size_digits_ == 0) return refuse_with(malformed_chunk());
  if (c == ';') {
    state_ = State::kChunkExtra;
  } else if (c == '\r') {
    state_ = State::kChunkSizeLf;
  } else {
    refuse_with(malformed_chunk());
  }
}

void BodyDecoder::take_extra_char(char c) {
  if (c == '\r') {
    state_ = State::kChunkSizeLf;
  } else if (!is_field_char(c) || ++num_extra_bytes_ > kChunkExtraBytesMax) {
    refuse_with(malformed_chunk());
  }
}

void BodyDecoder::end_size_line() {
  if (num_bytes_left_ == 0) {
    state_ = State::kTrailer;
    return;
  }
  if (++num_chunks_ > limits_->num_chunks_max) {
    return refuse_with(refuse(413, "too_many_chunks", "the body has too many chunks"));
  }
  if (num_bytes_left_ > limits_->body_bytes_max - num_bytes_sent_) {
    return refuse_with(body_too_large());
  }
  state_ = State::kChunkData;
}

void BodyDecoder::take_trailer_char(char c) {
  if (c == '\r') {
    state_ = State::kTrailerLf;
    return;
  }
  if (++num_trailer_bytes_ > limits_->header_bytes_max) {
    return refuse_with(refuse(431, "headers_too_large", "the trailer fields are too large"));
  }
  trailer_line_.push_back(c);
}

void BodyDecoder::end_trailer_line() {
  if (trailer_line_.empty()) return complete();
  const std::optional<size_t> colon = find_field_colon(trailer_line_);
  if (!colon || !may_be_trailer(std::string_view(trailer_line_).substr(0, *colon))) {
    return refuse_with(refuse_malformed("a trailer field is malformed"));
  }
  if (++num_trailers_ > limits_->num_headers_max) {
    return refuse_with(refuse(431, "too_many_headers", "the request has too many trailer fields"));
  }
  trailer_line_.clear();
  state_ = State::kTrailer;
}

void BodyDecoder::take_data(std::string_view data) {
  num_bytes_left_ -= data.size();
  num_bytes_sent_ += data.size();
  if (inflater_) {
    if (!inflate(data)) return;
  } else {
    body_.append(data);
    if (!hold_body()) return;
  }
  if (num_bytes_left_ > 0) return;
  if (state_ == State::kLength) {
    complete();
  } else {
    state_ = State::kChunkDataCr;
  }
}

// False: refused.
bool BodyDecoder::inflate(std::string_view data) {
  while (!data.empty()) {
    const std::string_view piece = data.substr(0, kInflatedAtOnceBytes);
    data.remove_prefix(piece.size());
    const InflateStatus status = inflater_->feed(piece, body_);
    if (status == InflateStatus::kTooLarge) {
      refuse_with(body_too_large());
      return false;
    }
    if (status == InflateStatus::kCorrupt) {
      refuse_with(refuse(400, "malformed_body", "the body is not valid gzip"));
      return false;
    }
    is_inflated_ = status == InflateStatus::kDone;
    if (!hold_body()) return false;
  }
  return true;
}

// False: refused.
bool BodyDecoder::hold_body() {
  if (held_.grow_to(body_.size() - std::min(body_.size(), kUncountedBytes))) return true;
  refuse_with(refuse(503, "too_many_bodies", "too many large bodies are being received at once"));
  return false;
}

void BodyDecoder::complete() {
  if (inflater_ && !is_inflated_) {
    return refuse_with(refuse(400, "malformed_body", "the gzip body is truncated"));
  }
  inflater_.reset();
  state_ = State::kComplete;
}

void BodyDecoder::refuse_with(Refusal refusal) {
  state_ = State::kRefused;
  refusal_ = std::move(refusal);
  inflater_.reset();
  body_ = {};
  held_.release();
}

}  // namespace millrace::http
