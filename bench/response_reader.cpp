#include "bench/response_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace millrace::bench {
namespace {

constexpr std::string_view kDone = "data: [DONE]\n\n";
constexpr size_t kHeadBytesMax = 16384;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

Result<size_t> read_number(std::string_view text, int base) {
  size_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (code != std::errc() || end != text.data() + text.size() || text.empty()) {
    return invalid_argument(fmt::format("'{}' is no length", text));
  }
  return value;
}

}  // namespace

size_t count_blank_lines(char before, std::string_view bytes) {
  if (bytes.empty()) return 0;
  size_t num = before == '\n' && bytes[0] == '\n' ? 1 : 0;
  // Blocks whose count fits a byte, so that the compiler counts in bytes: 16 or more a cycle.
  constexpr size_t kBlock = 128;
  size_t at = 1;
  for (; at + kBlock <= bytes.size(); at += kBlock) {
    const char* block = bytes.data() + at;
    uint8_t num_in_block = 0;
    for (size_t i = 0; i < kBlock; ++i) {
      num_in_block = static_cast<uint8_t>(
          num_in_block + static_cast<uint8_t>((block[i] == '\n') & (block[i - 1] == '\n'))
      );
    }
    num += num_in_block;
  }
  for (; at < bytes.size(); ++at) num += bytes[at] == '\n' && bytes[at - 1] == '\n' ? 1 : 0;
  return num;
}

bool ResponseReader::ends_with_done() const {
  return tail_.ends_with(kDone);
}

void ResponseReader::next(bool keeps_body) {
  state_ = State::kHead;
  line_.clear();
  status_ = 0;
  is_event_stream_ = false;
  is_chunked_ = false;
  must_close_ = false;
  num_left_ = 0;
  num_events_ = 0;
  tail_.clear();
  keeps_body_ = keeps_body;
  body_.clear();
}

Result<size_t> ResponseReader::feed(std::string_view bytes) {
  size_t num_taken = 0;
  while (num_taken < bytes.size() && !is_complete()) {
    const std::string_view rest = bytes.substr(num_taken);
    if (state_ == State::kSizedBody || state_ == State::kChunkData) {
      num_taken += feed_data(rest);
      continue;
    }
    const Result<size_t> taken = state_ == State::kHead ? feed_head(rest) : feed_line(rest);
    if (!taken) return taken.error();
    num_taken += *taken;
  }
  return num_taken;
}

Result<size_t> ResponseReader::feed_head(std::string_view bytes) {
  const size_t num_before = line_.size();
  line_.append(bytes.substr(0, kHeadBytesMax));
  const size_t end = line_.find("\r\n\r\n");
  if (end == line_.npos) {
    if (line_.size() > kHeadBytesMax) return invalid_argument("a head without an end");
    return std::min(bytes.size(), kHeadBytesMax);
  }
  line_.resize(end + 2);
  if (Result<void> read = read_head(); !read) return read.error();
  line_.clear();
  return end + 4 - num_before;
}

Result<void> ResponseReader::read_head() {
  const std::string_view head = line_;
  if (!head.starts_with("HTTP/1.1 ") || head.size() < 14) {
    return invalid_argument(fmt::format("'{}' is no status line", head.substr(0, 40)));
  }
  const Result<size_t> status = read_number(head.substr(9, 3), 10);
  if (!status) return status.error();
  status_ = static_cast<int>(*status);
  bool has_length = false;
  for (size_t at = head.find("\r\n") + 2; at < head.size();) {
    const size_t end = head.find("\r\n", at);
    const std::string_view field = head.substr(at, end - at);
    const size_t colon = field.find(": ");
    if (colon == field.npos) return invalid_argument(fmt::format("'{}' is no field", field));
    const std::string name = lower(field.substr(0, colon));
    has_length = has_length || name == "content-length" || name == "transfer-encoding";
    if (Result<void> read = read_field(name, field.substr(colon + 2)); !read) return read;
    at = end + 2;
  }
  if (!has_length) return invalid_argument("a response without a length");
  state_ = is_chunked_ ? State::kChunkSize : num_left_ == 0 ? State::kComplete : State::kSizedBody;
  return {};
}

Result<void> ResponseReader::read_field(std::string_view name, std::string_view value) {
  if (name == "content-length") {
    const Result<size_t> length = read_number(value, 10);
    if (!length) return length.error();
    num_left_ = *length;
  } else if (name == "transfer-encoding") {
    is_chunked_ = value == "chunked";
    if (!is_chunked_) return invalid_argument(fmt::format("transfer-encoding '{}'", value));
  } else if (name == "content-type") {
    is_event_stream_ = value.starts_with("text/event-stream");
  } else if (name == "connection") {
    must_close_ = lower(value) == "close";
  }
  return {};
}

Result<size_t> ResponseReader::feed_line(std::string_view bytes) {
  const size_t newline = bytes.find('\n');
  const size_t num = newline == bytes.npos ? bytes.size() : newline + 1;
  line_.append(bytes.substr(0, num));
  if (line_.size() > 64) return invalid_argument("a chunk's frame is not a short line");
  if (newline == bytes.npos) return num;
  if (Result<void> read = read_line(); !read) return read.error();
  line_.clear();
  return num;
}

Result<void> ResponseReader::read_line() {
  if (!line_.ends_with("\r\n")) return invalid_argument("a chunk's frame without CR LF");
  const std::string_view line = std::string_view(line_).substr(0, line_.size() - 2);
  if (state_ == State::kChunkSize) {
    const Result<size_t> size = read_number(line, 16);
    if (!size) return size.error();
    num_left_ = *size;
    state_ = num_left_ == 0 ? State::kTrailer : State::kChunkData;
    return {};
  }
  if (!line.empty()) return invalid_argument(fmt::format("'{}' after a chunk", line));
  state_ = state_ == State::kTrailer ? State::kComplete : State::kChunkSize;
  return {};
}

size_t ResponseReader::feed_data(std::string_view bytes) {
  const size_t num = std::min(num_left_, bytes.size());
  take_body(bytes.substr(0, num));
  num_left_ -= num;
  if (num_left_ == 0) state_ = is_chunked_ ? State::kChunkEnd : State::kComplete;
  return num;
}

void ResponseReader::take_body(std::string_view bytes) {
  num_events_ += count_blank_lines(tail_.empty() ? ' ' : tail_.back(), bytes);
  if (keeps_body_) body_.append(bytes);
  if (bytes.size() < kDone.size()) {
    tail_.append(bytes);
    if (tail_.size() > kDone.size()) tail_.erase(0, tail_.size() - kDone.size());
  } else {
    tail_.assign(bytes.substr(bytes.size() - kDone.size()));
  }
}

}  // namespace millrace::bench
