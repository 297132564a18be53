#include "loadgen/answer_framing.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "http/characters.h"

namespace millrace::bench {
namespace {

constexpr size_t kHeadBytesMax = size_t{64} << 10;
constexpr size_t kFrameLineBytesMax = 4096;  // with a chunk's extension, or one trailer
constexpr size_t kTrailerBytesMax = size_t{64} << 10;

// What a message quotes.
std::string_view start_of(std::string_view text) {
  return text.substr(0, 60);
}

bool read_number(std::string_view text, int base, uint64_t& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return code == std::errc() && end == text.data() + text.size();
}

}  // namespace

AnswerFraming::Step AnswerFraming::next(std::string_view& bytes, std::string_view& body) {
  while (true) {
    switch (state_) {
      case State::kComplete:
        return Step::kEnd;
      case State::kBad:
        return Step::kBad;
      default:
        break;
    }
    if (bytes.empty()) return Step::kMore;
    has_started_ = true;
    if (state_ == State::kHead) {
      if (!take_head(bytes)) return Step::kBad;
    } else if (state_ == State::kBodyUntilClose) {
      body = std::exchange(bytes, {});
      return Step::kBody;
    } else if (state_ == State::kSizedBody || state_ == State::kChunkData) {
      const size_t size = static_cast<size_t>(std::min<uint64_t>(num_left_, bytes.size()));
      body = bytes.substr(0, size);
      bytes.remove_prefix(size);
      num_left_ -= size;
      if (num_left_ == 0) state_ = is_chunked_ ? State::kChunkEnd : State::kComplete;
      return Step::kBody;
    } else if (!take_line(bytes)) {
      return Step::kBad;
    }
  }
}

bool AnswerFraming::end_of_connection() {
  is_keep_alive_ = false;
  if (state_ == State::kBodyUntilClose) state_ = State::kComplete;
  return state_ == State::kComplete;
}

void AnswerFraming::reset() {
  state_ = State::kHead;
  has_started_ = false;
  line_.clear();
  status_ = 0;
  is_event_stream_ = false;
  is_keep_alive_ = true;
  is_chunked_ = false;
  has_length_ = false;
  num_left_ = 0;
  num_trailer_bytes_ = 0;
  problem_.clear();
}

AnswerFraming::Step AnswerFraming::bad(std::string problem) {
  problem_ = std::move(problem);
  state_ = State::kBad;
  return Step::kBad;
}

// False: kBad.
bool AnswerFraming::take_head(std::string_view& bytes) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  if (line_.empty()) {
    const size_t end = bytes.substr(0, kHeadBytesMax).find(kEnd);
    if (end != bytes.npos) {
      const std::string_view head = bytes.substr(0, end + 2);
      bytes.remove_prefix(end + kEnd.size());
      return read_head(head);
    }
  }
  const size_t num_before = line_.size();
  // The end may have begun in what came before.
  const size_t from = num_before < kEnd.size() ? 0 : num_before - kEnd.size() + 1;
  line_.append(bytes.substr(0, kHeadBytesMax));
  const size_t end = line_.find(kEnd, from);
  if (end == line_.npos) {
    bytes.remove_prefix(std::min(bytes.size(), kHeadBytesMax));
    if (line_.size() <= kHeadBytesMax) return true;
    bad(fmt::format("the answer's head is longer than {} bytes", kHeadBytesMax));
    return false;
  }
  bytes.remove_prefix(end + kEnd.size() - num_before);
  const std::string head = std::exchange(line_, {}).substr(0, end + 2);
  return read_head(head);
}

// `head` without the empty line.
bool AnswerFraming::read_head(std::string_view head) {
  const size_t first_end = head.find("\r\n");
  if (!read_status_line(head.substr(0, first_end))) return false;
  for (size_t at = first_end + 2; at < head.size();) {
    const size_t end = head.find("\r\n", at);
    if (!read_field(head.substr(at, end - at))) return false;
    at = end + 2;
  }
  start_body();
  return true;
}

bool AnswerFraming::read_status_line(std::string_view line) {
  uint64_t status = 0;
  const bool is_http = line.starts_with("HTTP/1.") && line.size() >= 12 && line[8] == ' ' &&
                       (line.size() == 12 || line[12] == ' ') &&
                       read_number(line.substr(9, 3), 10, status) && status >= 100;
  if (!is_http) {
    bad(fmt::format("the answer is not HTTP/1.1: it starts with '{}'", start_of(line)));
    return false;
  }
  status_ = static_cast<int>(status);
  is_keep_alive_ = line[7] != '0';
  return true;
}

bool AnswerFraming::read_field(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == line.npos || colon == 0 ||
      !std::all_of(line.begin(), line.begin() + static_cast<int64_t>(colon), http::is_token_char)) {
    bad(fmt::format("'{}' is no header field", start_of(line)));
    return false;
  }
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = http::trim(line.substr(colon + 1));
  if (http::equals_ignoring_case(name, "content-length")) {
    uint64_t length = 0;
    if (!read_number(value, 10, length) || (has_length_ && length != num_left_)) {
      bad(fmt::format("content-length '{}'", start_of(value)));
      return false;
    }
    has_length_ = true;
    num_left_ = length;
  } else if (http::equals_ignoring_case(name, "transfer-encoding")) {
    is_chunked_ = http::equals_ignoring_case(value, "chunked");
    if (!is_chunked_) {
      bad(fmt::format("transfer-encoding '{}', expected chunked", start_of(value)));
      return false;
    }
  } else if (http::equals_ignoring_case(name, "content-type")) {
    constexpr std::string_view kEvents = "text/event-stream";
    is_event_stream_ = http::equals_ignoring_case(value.substr(0, kEvents.size()), kEvents);
  } else if (http::equals_ignoring_case(name, "connection")) {
    if (http::equals_ignoring_case(value, "close")) is_keep_alive_ = false;
    if (http::equals_ignoring_case(value, "keep-alive")) is_keep_alive_ = true;
  }
  return true;
}

void AnswerFraming::start_body() {
  if (status_ < 200) {  // 100 Continue and its like: the answer follows
    reset();
    has_started_ = true;
    return;
  }
  if (status_ == 204 || status_ == 304) {
    state_ = State::kComplete;
  } else if (is_chunked_) {
    state_ = State::kChunkSize;
  } else if (has_length_) {
    state_ = num_left_ == 0 ? State::kComplete : State::kSizedBody;
  } else {
    state_ = State::kBodyUntilClose;
    is_keep_alive_ = false;
  }
}

// False: kBad.
bool AnswerFraming::take_line(std::string_view& bytes) {
  const size_t newline = bytes.find('\n');
  const size_t size = newline == bytes.npos ? bytes.size() : newline + 1;
  if (line_.size() + size > kFrameLineBytesMax) {
    bad("a chunk's frame is not a short line");
    return false;
  }
  if (newline != bytes.npos && line_.empty()) {
    const std::string_view line = bytes.substr(0, size);
    bytes.remove_prefix(size);
    return end_line(line);
  }
  line_.append(bytes.substr(0, size));
  bytes.remove_prefix(size);
  if (newline == bytes.npos) return true;
  const bool is_good = end_line(line_);
  line_.clear();
  return is_good;
}

// `line` with its LF.
bool AnswerFraming::end_line(std::string_view line) {
  if (!line.ends_with("\r\n")) {
    bad(fmt::format("the chunk's frame '{}' does not end in CR LF", start_of(line)));
    return false;
  }
  line.remove_suffix(2);
  if (state_ == State::kChunkSize) return read_chunk_size(line);
  if (state_ == State::kChunkEnd) {
    if (!line.empty()) bad(fmt::format("'{}' after a chunk", start_of(line)));
    if (line.empty()) state_ = State::kChunkSize;
    return line.empty();
  }
  num_trailer_bytes_ += line.size();
  if (num_trailer_bytes_ > kTrailerBytesMax) bad("the trailer fields are too long");
  if (line.empty()) state_ = State::kComplete;
  return state_ != State::kBad;
}

bool AnswerFraming::read_chunk_size(std::string_view line) {
  const size_t extension = line.find(';');
  if (!read_number(http::trim(line.substr(0, extension)), 16, num_left_)) {
    bad(fmt::format("'{}' is no chunk size", start_of(line)));
    return false;
  }
  state_ = num_left_ == 0 ? State::kTrailer : State::kChunkData;
  return true;
}

}  // namespace millrace::bench
