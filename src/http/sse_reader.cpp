#include "http/sse_reader.h"

#include <algorithm>
#include <utility>

namespace millrace::http {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

Result<void> SseReader::feed(std::string_view bytes, std::vector<SseEvent>& events) {
  while (!bytes.empty() && !is_too_long_) {
    if (std::exchange(is_after_cr_, false) && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    is_too_long_ = line_.size() + event_.data.size() + end > event_bytes_max_;
    if (is_too_long_) break;
    line_.append(bytes.substr(0, end));
    if (end == bytes.size()) break;
    is_after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    end_line(events);
  }
  if (!is_too_long_) return {};
  return Error{ErrorCode::kResourceExhausted, "a server-sent event is too long"};
}

void SseReader::end_line(std::vector<SseEvent>& events) {
  std::string_view line = line_;
  if (std::exchange(is_first_line_, false) && line.starts_with(kByteOrderMark)) {
    line.remove_prefix(kByteOrderMark.size());
  }
  if (line.empty()) {
    end_event(events);
  } else if (!line.starts_with(':')) {
    const size_t colon = std::min(line.find(':'), line.size());
    std::string_view value = line.substr(std::min(colon + 1, line.size()));
    if (value.starts_with(' ')) value.remove_prefix(1);
    take_field(line.substr(0, colon), value);
  }
  line_.clear();
}

void SseReader::take_field(std::string_view name, std::string_view value) {
  if (name == "data") {
    if (std::exchange(has_data_, true)) event_.data.push_back('\n');
    event_.data.append(value);
  } else if (name == "event") {
    event_.type = value;
  } else if (name == "id" && value.find('\0') == std::string_view::npos) {
    event_.id = value;
  }
}

void SseReader::end_event(std::vector<SseEvent>& events) {
  std::string id = event_.id;
  if (std::exchange(has_data_, false)) events.push_back(std::move(event_));
  event_ = {.id = std::move(id)};
}

}  // namespace millrace::http
