// Any bytes into the reader of server-sent events: the events must not depend on how the bytes are
// split, and each must keep the reader's promises.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "http/sse_reader.h"

namespace {

constexpr size_t kEventBytesMax = 256;

std::vector<millrace::http::SseEvent> read(std::string_view bytes, size_t step) {
  millrace::http::SseReader reader(kEventBytesMax);
  std::vector<millrace::http::SseEvent> events;
  for (size_t at = 0; at < bytes.size(); at += step) {
    if (!reader.feed(bytes.substr(at, step), events)) break;
  }
  return events;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = read(bytes, size + 1);
  const auto pieces = read(bytes, size == 0 ? 1 : 1 + data[0] % 5);
  CHECK(pieces == whole, "splits change nothing");
  for (const auto& event : whole) {
    CHECK(event.data.size() <= kEventBytesMax, "events are bounded");
    CHECK(event.data.find('\r') == event.data.npos, "line ends are LF");
    CHECK(event.type.find_first_of("\r\n") == event.type.npos, "a type is one line");
  }
  return 0;
}
