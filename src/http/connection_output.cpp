// The half of Connection that answers.
#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <utility>

#include "http/connection.h"

namespace millrace::http {
namespace {

// Larger bodies are sent from where they are; smaller ones are copied behind their head.
constexpr size_t kCopiedBodyBytesMax = size_t{16} << 10;
// With this much unsent, no further request of the connection is looked at.
constexpr size_t kOutputPauseBytes = size_t{64} << 10;

}  // namespace

// The request cannot be read to its end, so the connection ends with the answer.
void Connection::refuse(const Refusal& refusal) {
  if (!refusal.is_answered) {
    thread_.service().log_line(refusal.code + ": " + refusal.message);
    return close();
  }
  adopt_request_terms();
  early_response_.reset();
  is_keep_alive_ = false;
  has_unread_input_ = true;
  answer_without_handler(thread_.service().render(refusal));
}

void Connection::answer_without_handler(Response response) {
  append_response(std::move(response), false);
  end_answer();
}

void Connection::take_answer() {
  std::string& stream_bytes = thread_.scratch();
  ResponseChannel::Taken taken = channel_->take(stream_bytes);
  using Progress = ResponseChannel::Progress;
  if (taken.progress == Progress::kOverflowed) return cut();
  if (taken.response) {
    append_response(std::move(*taken.response), taken.is_stream);
    if (taken.is_stream) {
      is_streaming_ = true;
      thread_.counters().add(Counters::kStreamsOpen);
    }
  } else if (taken.progress == Progress::kAbandoned && !is_streaming_) {
    const Refusal refusal = http::refuse(500, "internal_error", "the server made a mistake");
    append_response(thread_.service().render(refusal), false);
  }
  if (is_streaming_) append_stream_bytes(stream_bytes);
  if (taken.progress == Progress::kOpen) return;
  if (is_streaming_) {
    thread_.counters().subtract(Counters::kStreamsOpen);
    if (taken.progress == Progress::kAbandoned) {
      // No last chunk: the client must see that the stream is not whole.
      is_keep_alive_ = false;
    } else if (stream_framing_ == ResponseFraming::kChunked) {
      output().append("0\r\n\r\n");
    }
  }
  end_answer();
}

void Connection::append_response(Response response, bool is_stream) {
  if (thread_.service().is_draining) is_keep_alive_ = false;
  ResponseFraming framing = ResponseFraming::kLength;
  if (is_stream) {
    framing = is_head_request_                  ? ResponseFraming::kHeadOfStream
              : !may_have_body(response.status) ? ResponseFraming::kHeadOnly
              : is_http_1_0_                    ? ResponseFraming::kUntilClose
                                                : ResponseFraming::kChunked;
    if (framing == ResponseFraming::kUntilClose) is_keep_alive_ = false;
    stream_framing_ = framing;
  } else if (is_head_request_ || !may_have_body(response.status)) {
    framing = ResponseFraming::kHeadOnly;
  }
  std::ranges::move(cors_headers_, std::back_inserter(response.headers));
  cors_headers_.clear();
  append_head(
      output(),
      response,
      {
          .date = thread_.date(),
          .server_name = thread_.service().server_name,
          .request_id = request_id_,
          .framing = framing,
          .is_keep_alive = is_keep_alive_,
          .is_http_1_0 = is_http_1_0_,
      }
  );
  thread_.counters().add_response(response.status);
  if (framing != ResponseFraming::kLength) return;
  if (response.body.size() > kCopiedBodyBytesMax) {
    large_body_ = std::move(response.body);
  } else {
    out_.append(response.body);
  }
}

void Connection::append_stream_bytes(std::string_view bytes) {
  if (bytes.empty()) return;
  if (stream_framing_ == ResponseFraming::kChunked) {
    char size[2 * sizeof(size_t)];
    char* size_end = std::to_chars(std::begin(size), std::end(size), bytes.size(), 16).ptr;
    output().append(std::begin(size), size_end).append("\r\n").append(bytes).append("\r\n");
  } else if (stream_framing_ == ResponseFraming::kUntilClose) {
    output().append(bytes);
  }
}

std::string& Connection::output() {
  if (out_.empty()) thread_.lend_output(out_);
  return out_;
}

void Connection::end_answer() {
  if (channel_) std::exchange(channel_, nullptr)->detach();
  is_streaming_ = false;
  ++num_requests_;
  // A stream that began before the drain did promised to keep the connection; it may be broken.
  const bool is_last = !is_keep_alive_ || thread_.service().is_draining;
  state_ = is_last ? State::kFlushing : State::kReading;
}

size_t Connection::num_bytes_unsent() const {
  return out_.size() - num_out_sent_ + large_body_.size() - num_body_sent_;
}

bool Connection::is_output_paused() const {
  return !large_body_.empty() || out_.size() - num_out_sent_ >= kOutputPauseBytes;
}

void Connection::write_output() {
  if (is_write_armed_ || is_write_waiting_for_read_) return;
  while (num_bytes_unsent() > 0) {
    const std::array<std::string_view, 2> pieces = {
        std::string_view(out_).substr(num_out_sent_),
        std::string_view(large_body_).substr(num_body_sent_),
    };
    const size_t num_pieces = large_body_.empty() ? 1 : 2;
    const IoResult result = transport_->write(std::span(pieces).first(num_pieces));
    switch (result.status) {
      case IoStatus::kDone:
        take_written(result.num_bytes);
        break;
      case IoStatus::kWantWrite:
        return arm_write();
      case IoStatus::kWantRead:
        is_write_waiting_for_read_ = true;
        return;
      case IoStatus::kEnd:
      case IoStatus::kFailed:
        return close();
    }
  }
  if (state_ == State::kFlushing) on_output_empty();
}

void Connection::take_written(size_t num_bytes) {
  thread_.counters().add(Counters::kBytesSent, num_bytes);
  num_bytes_out_ += num_bytes;
  const size_t num_of_out = std::min(num_bytes, out_.size() - num_out_sent_);
  num_out_sent_ += num_of_out;
  num_body_sent_ += num_bytes - num_of_out;
  if (num_out_sent_ == out_.size()) {
    num_out_sent_ = 0;
    thread_.return_output(out_);
  }
  if (num_body_sent_ == large_body_.size()) {
    large_body_ = {};
    num_body_sent_ = 0;
  }
}

void Connection::on_output_empty() {
  if (!has_unread_input_ && backlog_.empty()) return close();
  // Closing a socket with unread input resets it, and the reset may overtake the answer.
  backlog_ = {};
  transport_->end_writing();
  state_ = State::kLingering;
}

}  // namespace millrace::http
