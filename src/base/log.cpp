#include "base/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace millrace {
namespace {

// Whether a write would not wait. A pipe counts as writable while it has room for PIPE_BUF bytes,
// which is more than a line, and a closed one too: the write then says why it fails.
bool takes_a_line_at_once(int fd) {
  pollfd entry = {.fd = fd, .events = POLLOUT, .revents = 0};
  int rc = 0;
  do {
    rc = ::poll(&entry, 1, 0);
  } while (rc < 0 && errno == EINTR);
  return rc > 0;
}

}  // namespace

Result<std::unique_ptr<Log>> Log::open(const LogOptions& options) {
  if (!options.path) return std::make_unique<Log>(STDERR_FILENO, options);
  // Non-blocking for the sake of a named pipe: neither to wait for a reader here, nor for room.
  const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  const int fd = ::open(options.path->c_str(), flags, 0640);
  if (fd < 0) {
    return invalid_argument(
        fmt::format("the log file cannot be opened: {}", std::strerror(errno)), *options.path
    );
  }
  return std::unique_ptr<Log>(new Log(fd, true, options));
}

Log::Log(int borrowed_fd, const LogOptions& options) : Log(borrowed_fd, false, options) {}

Log::Log(int fd, bool is_fd_owned, const LogOptions& options)
    : fd_(fd), is_fd_owned_(is_fd_owned), level_(options.level), format_(options.format) {}

Log::~Log() {
  if (is_fd_owned_) ::close(fd_);
}

void Log::format_and_write(
    LogLevel level, std::string_view message, std::span<const LogField> fields
) {
  const LogEvent event = {std::chrono::system_clock::now(), level, message};
  const std::string line = format_log_line(format_, event, fields);
  const std::lock_guard lock(mutex_);
  if (tell_of_lost_lines() && write_line(line)) return;
  ++num_lines_lost_;
  num_lines_dropped_.fetch_add(1, std::memory_order_relaxed);
}

// False: there are some, and this cannot be written either.
bool Log::tell_of_lost_lines() {
  if (num_lines_lost_ == 0) return true;
  const LogField fields[] = {{"num_lines_lost", num_lines_lost_}};
  const LogEvent event = {
      std::chrono::system_clock::now(), LogLevel::kWarning, "log lines could not be written"};
  if (!write_line(format_log_line(format_, event, fields))) return false;
  num_lines_lost_ = 0;
  return true;
}

// False: not written, or not to its end.
bool Log::write_line(std::string_view line) {
  if (!takes_a_line_at_once(fd_)) return false;
  std::string restart;
  if (is_line_torn_) {
    restart = "\n";
    restart += line;
    line = restart;
  }
  ssize_t rc = 0;
  do {
    rc = ::write(fd_, line.data(), line.size());
  } while (rc < 0 && errno == EINTR);
  if (rc <= 0) return false;
  const auto num_bytes_written = static_cast<size_t>(rc);
  is_line_torn_ = line[num_bytes_written - 1] != '\n';
  return num_bytes_written == line.size();
}

}  // namespace millrace
