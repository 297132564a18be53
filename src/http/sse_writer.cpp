#include "http/sse_writer.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace millrace::http {
namespace {

bool has_line_end(std::string_view text) {
  return text.find_first_of("\r\n") != std::string_view::npos;
}

// The payload with each line end replaced by "\n" + prefix.
std::string fold_lines(std::string_view payload, std::string_view prefix) {
  std::string folded;
  while (true) {
    const size_t end = payload.find_first_of("\r\n");
    folded.append(payload.substr(0, end));
    if (end == std::string_view::npos) return folded;
    folded.append("\n").append(prefix);
    const bool is_pair = payload.substr(end, 2) == "\r\n";
    payload.remove_prefix(end + (is_pair ? 2 : 1));
  }
}

}  // namespace

bool SseWriter::begin(std::vector<Header> headers) {
  headers.push_back({"content-type", "text/event-stream; charset=utf-8"});
  headers.push_back({"cache-control", "no-cache"});
  // nginx and its kin hold a response back until their buffers fill, unless told not to.
  headers.push_back({"x-accel-buffering", "no"});
  return exchange_->begin_stream({.status = 200, .headers = std::move(headers)});
}

bool SseWriter::write_event(std::string_view prefix, std::string_view payload) {
  if (has_line_end(payload)) {
    return exchange_->write({prefix, "data: ", fold_lines(payload, "data: "), "\n\n"});
  }
  return exchange_->write({prefix, "data: ", payload, "\n\n"});
}

bool SseWriter::data(std::string_view payload) {
  return write_event("", payload);
}

bool SseWriter::event(std::string_view name, std::string_view payload) {
  CHECK(!has_line_end(name), "an event's name is one line");
  std::string prefix;
  prefix.append("event: ").append(name).append("\n");
  return write_event(prefix, payload);
}

bool SseWriter::comment(std::string_view text) {
  return exchange_->write({": ", fold_lines(text, ": "), "\n\n"});
}

}  // namespace millrace::http
