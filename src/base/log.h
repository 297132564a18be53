// A server's log: one call, one line, one write(2). Passed by reference to whoever logs.
//
// Logging never ends or holds up the process. A line that cannot be written at once is dropped and
// counted: the reader of a pipe has gone or does not read, the disk is full, the descriptor is
// closed. When lines pass again, one says how many were lost. (A regular file on a disk that hangs
// is the exception: no system call writes to it without waiting.)
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/log_line.h"
#include "base/result.h"

namespace millrace {

struct LogOptions {
  LogLevel level = LogLevel::kInfo;  // nothing below it is written
  LogFormat format = LogFormat::kText;
  std::optional<std::string> path;  // appended to, created if need be; none: standard error
};

// Thread-safe: lines of several threads, and of several processes that append to one file, do not
// mix. REQUIRES: the process ignores SIGPIPE.
class Log {
 public:
  // The error's `where` is the path.
  static Result<std::unique_ptr<Log>> open(const LogOptions& options);
  // Writes to a descriptor of the caller's, who keeps it open. `path` is not looked at.
  Log(int borrowed_fd, const LogOptions& options);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // Costs one comparison where the level is off. Escaping and cutting: log_line.h.
  //
  //   log.info("request finished", {{"request_id", id}, {"status", 200}, {"ttft_ms", 12.5}});
  using Fields = std::initializer_list<LogField>;
  void debug(std::string_view message, Fields fields = {}) {
    write(LogLevel::kDebug, message, {fields.begin(), fields.size()});
  }
  void info(std::string_view message, Fields fields = {}) {
    write(LogLevel::kInfo, message, {fields.begin(), fields.size()});
  }
  void warning(std::string_view message, Fields fields = {}) {
    write(LogLevel::kWarning, message, {fields.begin(), fields.size()});
  }
  void error(std::string_view message, Fields fields = {}) {
    write(LogLevel::kError, message, {fields.begin(), fields.size()});
  }
  // For a level, or a number of fields, that is decided at run time.
  void write(LogLevel level, std::string_view message, std::span<const LogField> fields) {
    if (is_on(level)) format_and_write(level, message, fields);
  }

  // Whether lines of this level are written: for fields that cost something to make.
  bool is_on(LogLevel level) const { return level >= level_; }

  // Since the start, with those that were cut in the middle.
  uint64_t num_lines_dropped() const { return num_lines_dropped_.load(std::memory_order_relaxed); }

 private:
  Log(int fd, bool is_fd_owned, const LogOptions& options);
  void format_and_write(LogLevel level, std::string_view message, std::span<const LogField> fields);
  bool tell_of_lost_lines();
  bool write_line(std::string_view line);

  const int fd_;
  const bool is_fd_owned_;
  const LogLevel level_;
  const LogFormat format_;
  std::atomic<uint64_t> num_lines_dropped_ = 0;

  std::mutex mutex_;             // guards all below, and that a line is one with its predecessor
  uint64_t num_lines_lost_ = 0;  // that no line has told of yet
  bool is_line_torn_ = false;    // the file ends in the middle of a line
};

}  // namespace millrace
