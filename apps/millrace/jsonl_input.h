// A file of lines, read as a stream: of any length, from a pipe too, in the memory of one line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "http/unique_fd.h"

namespace millrace {

struct JsonlLine {
  enum class Kind {
    kLine,
    kTooLong,      // what stands in it was skipped
    kEnd,          // of the file
    kInterrupted,  // interrupt() was called
  };
  Kind kind = Kind::kEnd;
  std::string text;         // without its end
  bool is_ended = true;     // false: the file's last line, without a line break
  uint64_t number = 0;      // from 1 on, counting empty lines too
  uint64_t bytes_read = 0;  // of the file, to the end of this line
};

// Used by one thread, but for interrupt().
class JsonlInput {
 public:
  // "-" is standard input.
  static Result<JsonlInput> open(const std::string& path, size_t line_bytes_max);

  // Sleeps until there is a line that is not empty. A last line needs no end.
  Result<JsonlLine> next();

  // Ends the next() that sleeps now, and all that come after. Any thread.
  void interrupt();

  // none: a pipe, say.
  std::optional<uint64_t> file_bytes() const { return file_bytes_; }
  // Whether `path` is the same file.
  bool is_same_file(const std::string& path) const;
  const std::string& name() const { return name_; }

 private:
  JsonlInput(std::string name, http::UniqueFd fd, http::UniqueFd interrupted, size_t bytes_max);
  bool take_line(JsonlLine& line);
  Result<bool> fill();

  std::string name_;
  http::UniqueFd fd_;
  http::UniqueFd interrupted_;  // an event
  size_t line_bytes_max_;
  std::optional<uint64_t> file_bytes_;
  std::string buffer_;       // bytes that were read
  size_t begin_ = 0;         // of them, the first that was not handed out
  size_t num_searched_ = 0;  // of those not handed out, without a line's end
  uint64_t bytes_taken_ = 0;
  uint64_t num_lines_ = 0;
  bool is_skipping_ = false;  // the rest of a line that is too long
  bool is_at_end_ = false;
};

}  // namespace millrace
