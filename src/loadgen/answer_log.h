// Makes a request's record of its answer's events: when what came, and how many tokens it brought.
// Not thread-safe; one for each connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/event_fields.h"
#include "results/request_record.h"

namespace millrace::bench {

struct AnswerLogOptions {
  bool is_streamed = true;
  bool keeps_chunks = true;
  bool keeps_text = false;
};

class AnswerLog {
 public:
  // Begins with an answer; `record` outlives it. Room for the planned chunks is taken here.
  void start(RequestRecord& record, const AnswerLogOptions& options);

  // An event that is no error, in the order in which they come. Gives how many tokens it brought,
  // as far as can be told by now.
  int64_t add(const EventFields& event, Nanos now);
  // The same with an answer that came whole, in one JSON object: of its tokens only the end is
  // known, so that the record has no first times and no chunks.
  int64_t add_whole(const EventFields& answer, Nanos now);

  // No more comes. Settles where the number of tokens comes from: usage in every event that brought
  // output, else token ids in each, else the total usage, else the events with output.
  // Usage that stands still while most of the output comes is a total.
  void finish();

  bool has_finish_reason() const { return !record_->finish_reason.empty(); }
  bool has_output() const { return num_output_events_ > 0; }
  // The answer without its reasoning, as a later turn repeats it; only where texts are kept.
  const std::string& answer_text() const { return answer_text_; }

 private:
  void take_totals(const EventFields& event, Nanos now);
  bool brings_output(const EventFields& event);
  int64_t count_tokens(const EventFields& event, bool has_output);
  void keep_text(const EventFields& event);
  bool counts_late() const;

  RequestRecord* record_ = nullptr;
  AnswerLogOptions options_;
  bool is_whole_ = false;         // the answer came in one piece
  bool has_usage_deltas_ = true;  // every event with output had usage so far
  bool has_ids_ = true;           // every event with output had token ids so far
  bool has_usage_in_events_ = false;
  std::optional<int64_t> usage_total_;
  int64_t num_tokens_by_deltas_ = 0;
  bool has_uncounted_output_ = false;  // since the usage last grew, an event brought output
  int64_t num_late_tokens_max_ = 0;    // by which it then grew at once
  Nanos last_text_{0};                 // of the last event with output
  int64_t num_ids_ = 0;
  int64_t num_output_events_ = 0;
  std::vector<bool> chunks_with_output_;  // [record's chunks]
  size_t native_text_size_ =
      0;                     // of the event before, escapes and all: native texts are cumulative
  std::string native_text_;  // of the event before, where texts are kept
  std::string answer_text_;
};

}  // namespace millrace::bench
