#include "loadgen/sse_scan.h"

#include <utility>

namespace millrace::bench {

std::optional<std::string_view> SseScan::next(std::string_view& bytes) {
  forget_given();
  while (!is_overlong_) {
    const size_t newline = bytes.find('\n');
    if (newline == bytes.npos) break;
    std::string_view line = bytes.substr(0, newline);
    bytes.remove_prefix(newline + 1);
    const bool is_whole = line_.empty();
    if (!is_whole) line = line_.append(line);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool ends_event = line.empty() && kind_ != Data::kNone;
    if (!ends_event) take_line(line, is_whole);
    line_.clear();
    if (!ends_event) continue;
    is_given_ = true;
    return data();
  }
  own();
  line_.append(bytes);
  bytes = {};
  is_overlong_ = is_overlong_ || line_.size() + owned_.size() > event_bytes_max_;
  return std::nullopt;
}

std::optional<std::string_view> SseScan::finish() {
  forget_given();
  if (!line_.empty()) {
    std::string_view line = line_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    take_line(line, false);
    line_.clear();
  }
  if (kind_ == Data::kNone || is_overlong_) return std::nullopt;
  is_given_ = true;
  return data();
}

void SseScan::reset() {
  line_.clear();
  owned_.clear();
  kind_ = Data::kNone;
  is_error_ = false;
  is_given_ = false;
  is_overlong_ = false;
}

void SseScan::forget_given() {
  if (!std::exchange(is_given_, false)) return;
  kind_ = Data::kNone;
  is_error_ = false;
}

void SseScan::take_line(std::string_view line, bool is_borrowed) {
  constexpr std::string_view kField = "data";
  if (!line.starts_with(kField)) {
    // An empty line here ends an event without data, which is none.
    if (line.empty()) is_error_ = false;
    if (line.starts_with("event:")) is_error_ = line == "event: error" || line == "event:error";
    return;
  }
  line.remove_prefix(kField.size());
  if (!line.empty() && line[0] != ':') return;
  if (!line.empty()) line.remove_prefix(1);
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (kind_ != Data::kNone) {
    own();
    owned_.append("\n").append(line);
  } else if (is_borrowed) {
    kind_ = Data::kBorrowed;
    borrowed_ = line;
  } else {
    kind_ = Data::kOwned;
    owned_ = line;
  }
  is_overlong_ = is_overlong_ || owned_.size() > event_bytes_max_;
}

// The bytes that are borrowed from are about to go.
void SseScan::own() {
  if (kind_ != Data::kBorrowed) return;
  owned_ = borrowed_;
  kind_ = Data::kOwned;
}

}  // namespace millrace::bench
