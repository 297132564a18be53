// Lines from a terminal or a pipe, as people type them.
#pragma once

#include <termios.h>

#include <cstddef>
#include <optional>
#include <string>

#include "base/result.h"
#include "http/unique_fd.h"

namespace millrace {

enum class InputKind {
  kLine,
  kEnd,          // the end of the file, or Ctrl-D
  kInterrupted,  // interrupt() was called; what was typed of the line is gone
};

struct Input {
  InputKind kind = InputKind::kEnd;
  std::string line;  // valid UTF-8, without its end
};

// Used by one thread, but for interrupt(). Lines are edited by the kernel, which is told that they
// are UTF-8 for as long as the object lives.
class LineInput {
 public:
  // `fd` is borrowed. `line_bytes_max`: a longer line is an error.
  static Result<LineInput> make(int fd, size_t line_bytes_max = size_t{4} << 20);
  LineInput(LineInput&& other) noexcept;
  LineInput& operator=(LineInput&&) = delete;
  ~LineInput();

  // Sleeps until there is one. A last line needs no end.
  Result<Input> next();

  // Ends the next() that sleeps now, or the one after. Any thread.
  void interrupt();

 private:
  LineInput(int fd, size_t line_bytes_max, http::UniqueFd interrupted);
  std::optional<std::string> take_line();

  int fd_;
  size_t line_bytes_max_;
  http::UniqueFd interrupted_;           // an event
  std::optional<termios> old_settings_;  // of the terminal, where they were changed
  std::string pending_;                  // bytes that were read and not handed out
  size_t num_searched_ = 0;              // of them, without a line's end
  bool is_at_end_ = false;
};

}  // namespace millrace
