#include "jsonl_input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace millrace {
namespace {

// Large reads: a system call costs more than the lines of a page.
constexpr size_t kReadBytes = size_t{256} << 10;

Error read_error(const std::string& name) {
  return invalid_argument(fmt::format("cannot read '{}': {}", name, std::strerror(errno)));
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

Result<JsonlInput> JsonlInput::open(const std::string& path, size_t line_bytes_max) {
  const bool is_stdin = path == "-";
  const int fd = is_stdin ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                          : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const std::string name = is_stdin ? "standard input" : path;
  if (fd < 0) return read_error(name);
  http::UniqueFd owned(fd);
  struct stat status {};
  if (::fstat(fd, &status) != 0) return read_error(name);
  if (S_ISDIR(status.st_mode)) {
    return invalid_argument(fmt::format("'{}' is a directory: expected a file of lines", name));
  }
  const int interrupted = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (interrupted < 0) return read_error(name);
  JsonlInput input(name, std::move(owned), http::UniqueFd(interrupted), line_bytes_max);
  if (S_ISREG(status.st_mode)) input.file_bytes_ = static_cast<uint64_t>(status.st_size);
  return input;
}

JsonlInput::JsonlInput(
    std::string name, http::UniqueFd fd, http::UniqueFd interrupted, size_t bytes_max
)
    : name_(std::move(name)),
      fd_(std::move(fd)),
      interrupted_(std::move(interrupted)),
      line_bytes_max_(bytes_max) {}

void JsonlInput::interrupt() {
  const uint64_t one = 1;
  // It fails only when the count is at its limit: then an interruption waits already.
  static_cast<void>(::write(interrupted_.get(), &one, sizeof one));
}

bool JsonlInput::is_same_file(const std::string& path) const {
  struct stat mine {};
  struct stat other {};
  return ::fstat(fd_.get(), &mine) == 0 && ::stat(path.c_str(), &other) == 0 &&
         mine.st_dev == other.st_dev && mine.st_ino == other.st_ino && S_ISREG(mine.st_mode);
}

Result<JsonlLine> JsonlInput::next() {
  while (true) {
    JsonlLine line;
    if (take_line(line)) return line;
    if (is_at_end_) return JsonlLine{.kind = JsonlLine::Kind::kEnd, .bytes_read = bytes_taken_};
    const Result<bool> is_interrupted = fill();
    if (!is_interrupted) return is_interrupted.error();
    if (*is_interrupted) return JsonlLine{.kind = JsonlLine::Kind::kInterrupted};
  }
}

// False: more has to be read first.
bool JsonlInput::take_line(JsonlLine& line) {
  while (true) {
    const size_t end = buffer_.find('\n', begin_ + num_searched_);
    const bool is_whole = end != std::string::npos;
    const size_t size = (is_whole ? end : buffer_.size()) - begin_;
    const bool is_too_long = is_skipping_ || size > line_bytes_max_;
    if (!is_whole && !(is_at_end_ && (size > 0 || is_skipping_))) {
      num_searched_ = size;
      if (!is_too_long) return false;
      // Its bytes need not be kept to its end.
      bytes_taken_ += size;
      begin_ = buffer_.size();
      num_searched_ = 0;
      is_skipping_ = true;
      return false;
    }
    const std::string_view text = std::string_view(buffer_).substr(begin_, size);
    const size_t num_taken = size + (is_whole ? 1 : 0);
    bytes_taken_ += num_taken;
    ++num_lines_;
    const bool is_wanted = is_too_long || !is_blank(text);
    if (is_wanted) {
      line.kind = is_too_long ? JsonlLine::Kind::kTooLong : JsonlLine::Kind::kLine;
      if (!is_too_long) line.text = text;
      line.is_ended = is_whole;
      line.number = num_lines_;
      line.bytes_read = bytes_taken_;
    }
    begin_ += num_taken;
    num_searched_ = 0;
    is_skipping_ = false;
    if (is_wanted) return true;
  }
}

// Reads some more; whether it was interrupted instead.
Result<bool> JsonlInput::fill() {
  buffer_.erase(0, std::exchange(begin_, 0));
  std::array<pollfd, 2> entries = {{
      {.fd = fd_.get(), .events = POLLIN, .revents = 0},
      {.fd = interrupted_.get(), .events = POLLIN, .revents = 0},
  }};
  if (::poll(entries.data(), entries.size(), -1) < 0) {
    if (errno == EINTR) return false;
    return read_error(name_);
  }
  if (entries[1].revents != 0) return true;
  const size_t size = buffer_.size();
  buffer_.resize(size + kReadBytes);
  const ssize_t num_bytes = ::read(fd_.get(), buffer_.data() + size, kReadBytes);
  const int error_number = errno;
  buffer_.resize(size + static_cast<size_t>(std::max<ssize_t>(num_bytes, 0)));
  errno = error_number;
  if (num_bytes < 0 && errno != EINTR && errno != EAGAIN) return read_error(name_);
  if (num_bytes == 0) is_at_end_ = true;
  return false;
}

}  // namespace millrace
