// Reads server-sent events (WHATWG HTML, 9.2.6) from bytes that come in pieces of any size.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace::http {

struct SseEvent {
  std::string type;  // the "event" field; empty stands for "message"
  std::string data;  // the "data" lines, joined by LF
  std::string id;    // the last "id" so far, of this event or an earlier one

  friend bool operator==(const SseEvent&, const SseEvent&) = default;
};

class SseReader {
 public:
  // One event, all its lines together, may be at most `event_bytes_max` long.
  explicit SseReader(size_t event_bytes_max = size_t{16} << 20)
      : event_bytes_max_(event_bytes_max) {}

  // Appends the events that `bytes` complete. kResourceExhausted: an event is too long; the reader
  // takes nothing more. What stands after the last empty line when the stream ends is no event.
  Result<void> feed(std::string_view bytes, std::vector<SseEvent>& events);

 private:
  void end_line(std::vector<SseEvent>& events);
  void take_field(std::string_view name, std::string_view value);
  void end_event(std::vector<SseEvent>& events);

  size_t event_bytes_max_;
  std::string line_;
  SseEvent event_;
  bool has_data_ = false;
  bool is_after_cr_ = false;   // an LF that comes now belongs to the CR
  bool is_first_line_ = true;  // may start with a byte order mark
  bool is_too_long_ = false;
};

}  // namespace millrace::http
