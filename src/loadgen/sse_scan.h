// Splits a body into server-sent events (WHATWG HTML, 9.2.6) as fast as a load generator must: an
// event that lies whole in the bytes is not copied. Lines end in LF or CR LF; a lone CR, which no
// server sends, is none. Of the fields `data` is of interest, and `event` where it says "error".
// Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::bench {

class SseScan {
 public:
  // One event, all its lines together, may be at most so long.
  explicit SseScan(size_t event_bytes_max = size_t{64} << 20) : event_bytes_max_(event_bytes_max) {}

  // Takes bytes from the front up to the end of the next event and gives its data: the lines,
  // joined by LF, valid until the next call or the end of `bytes`' memory. none: all was taken, and
  // no event ended in it.
  std::optional<std::string_view> next(std::string_view& bytes);

  // At the end of the body: an event that no empty line ended, as some servers leave their last.
  std::optional<std::string_view> finish();

  // Whether the event that was given says `event: error`.
  bool is_error() const { return is_error_; }

  // An event is too long: nothing more is taken.
  bool is_overlong() const { return is_overlong_; }

  // Expects another body. Keeps its memory.
  void reset();

 private:
  enum class Data { kNone, kBorrowed, kOwned };

  void forget_given();
  void take_line(std::string_view line, bool is_borrowed);
  std::string_view data() const { return kind_ == Data::kBorrowed ? borrowed_ : owned_; }
  void own();

  size_t event_bytes_max_;
  std::string line_;  // the start of a line that goes on in the next bytes
  Data kind_ = Data::kNone;
  std::string_view borrowed_;
  std::string owned_;
  bool is_error_ = false;
  bool is_given_ = false;  // what `data()` holds was given away: the next call forgets it
  bool is_overlong_ = false;
};

}  // namespace millrace::bench
