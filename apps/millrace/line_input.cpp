#include "line_input.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "text/unicode.h"

namespace millrace {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;

Error read_error() {
  return invalid_argument(fmt::format("cannot read the input: {}", std::strerror(errno)));
}

std::string to_utf8(std::string_view bytes) {
  std::string text;
  append_utf8_lossy(bytes, true, text);
  return text;
}

}  // namespace

Result<LineInput> LineInput::make(int fd, size_t line_bytes_max) {
  const int interrupted = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (interrupted < 0) return read_error();
  return LineInput(fd, line_bytes_max, http::UniqueFd(interrupted));
}

LineInput::LineInput(int fd, size_t line_bytes_max, http::UniqueFd interrupted)
    : fd_(fd), line_bytes_max_(line_bytes_max), interrupted_(std::move(interrupted)) {
  termios settings;
  if (::tcgetattr(fd_, &settings) != 0 || (settings.c_iflag & IUTF8) != 0) return;
  old_settings_ = settings;
  settings.c_iflag |= IUTF8;  // backspace takes back a character, not a byte
  ::tcsetattr(fd_, TCSANOW, &settings);
}

LineInput::LineInput(LineInput&& other) noexcept
    : fd_(other.fd_),
      line_bytes_max_(other.line_bytes_max_),
      interrupted_(std::move(other.interrupted_)),
      old_settings_(std::exchange(other.old_settings_, std::nullopt)),
      pending_(std::move(other.pending_)),
      num_searched_(other.num_searched_),
      is_at_end_(other.is_at_end_) {}

LineInput::~LineInput() {
  if (old_settings_) ::tcsetattr(fd_, TCSANOW, &*old_settings_);
}

void LineInput::interrupt() {
  const uint64_t one = 1;
  // It fails only when the count is at its limit: then an interruption waits already.
  static_cast<void>(::write(interrupted_.get(), &one, sizeof one));
}

std::optional<std::string> LineInput::take_line() {
  const size_t end = pending_.find('\n', num_searched_);
  num_searched_ = pending_.size();
  if (end == std::string::npos && !(is_at_end_ && !pending_.empty())) return std::nullopt;
  std::string_view line = std::string_view(pending_).substr(0, end);
  if (line.ends_with('\r')) line.remove_suffix(1);
  std::string text = to_utf8(line);
  pending_.erase(0, end == std::string::npos ? end : end + 1);
  num_searched_ = 0;
  return text;
}

Result<Input> LineInput::next() {
  while (true) {
    if (std::optional<std::string> line = take_line()) {
      return Input{InputKind::kLine, *std::move(line)};
    }
    if (is_at_end_) return Input{InputKind::kEnd, {}};
    if (pending_.size() > line_bytes_max_) {
      return invalid_argument(fmt::format("a line is longer than {} bytes", line_bytes_max_));
    }
    std::array<pollfd, 2> entries = {{
        {.fd = fd_, .events = POLLIN, .revents = 0},
        {.fd = interrupted_.get(), .events = POLLIN, .revents = 0},
    }};
    if (::poll(entries.data(), entries.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return read_error();
    }
    if (entries[1].revents != 0) {
      uint64_t count = 0;
      static_cast<void>(::read(interrupted_.get(), &count, sizeof count));
      pending_.clear();
      num_searched_ = 0;
      return Input{InputKind::kInterrupted, {}};
    }
    std::array<char, kReadBytes> buffer;
    const ssize_t num_bytes = ::read(fd_, buffer.data(), buffer.size());
    if (num_bytes < 0 && errno != EINTR && errno != EAGAIN) return read_error();
    if (num_bytes == 0) is_at_end_ = true;
    if (num_bytes > 0) pending_.append(buffer.data(), static_cast<size_t>(num_bytes));
  }
}

}  // namespace millrace
