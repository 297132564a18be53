// Which requests of a batch have an answer: so that a run that goes on neither repeats nor loses
// one. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "server/protocol/batch_line.h"

namespace millrace {

// Keeps each custom_id of the batch, since nothing less shows that one comes twice: about 100 bytes
// for each line.
class AnsweredRequests {
 public:
  enum class State {
    kNew,
    kAnswered,   // in a run before this
    kFailed,     // the same, with an error
    kDuplicate,  // an earlier line of the file has this custom_id
  };

  // An answer that an earlier run wrote.
  void add(const BatchAnswerLine& answer);

  // What to do with the next line of the file. Lines without a custom_id of their own are known by
  // their number.
  State see(const std::string& custom_id);
  State see_line(uint64_t line_number) const;

  // By earlier runs.
  size_t num_answered() const { return num_answered_; }
  size_t num_failed() const { return num_failed_; }

 private:
  std::unordered_map<std::string, State> states_;  // kDuplicate: was seen in this run
  std::unordered_set<uint64_t> failed_lines_;      // without a custom_id
  size_t num_answered_ = 0;                        // with a 200
  size_t num_failed_ = 0;                          // otherwise
};

}  // namespace millrace
