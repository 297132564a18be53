// The file of a batch's answers: one line each, in one write each, so that a process that is killed
// leaves whole lines and at most one torn one. The next run cuts that off and goes on.
// Used by one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "answered_requests.h"
#include "base/clock.h"
#include "base/result.h"
#include "http/unique_fd.h"

namespace millrace {

struct BatchOutputOptions {
  bool overwrite = false;     // forgets what is there
  bool retry_failed = false;  // takes the lines of failed requests out first
};

class BatchOutput {
 public:
  // "-" is standard output. A file that is there already is read: what it answers goes to
  // `answered`. Refused: a file with other lines, and one that another process writes to.
  static Result<BatchOutput> open(
      const std::string& path, const BatchOutputOptions& options, AnsweredRequests& answered
  );

  // `line` ends with a line break. Now and then what was written is made to outlive the machine
  // too.
  Result<void> append(std::string_view line);

  // All that was written outlives the machine.
  Result<void> sync();

  // For messages.
  const std::string& name() const { return name_; }
  // Whether a run that was cut short can go on from it.
  bool is_file() const { return is_file_; }

 private:
  BatchOutput(std::string name, http::UniqueFd fd, bool is_file);
  Result<void> read_answers(const BatchOutputOptions& options, AnsweredRequests& answered);
  Result<void> take_lock();
  Result<void> take_failed_out();

  std::string name_;
  http::UniqueFd fd_;
  bool is_file_;
  bool is_dirty_ = false;
  TimePoint synced_;
};

}  // namespace millrace
