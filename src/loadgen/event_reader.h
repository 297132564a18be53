// Reads events that mostly look like one before, which is what a stream is made of: some 60 ns an
// event where read_event() takes 400.
//
// An event that read_event() has read becomes a template: its bytes, with holes where values differ
// (loadgen/event_fields.h). An event that has the same bytes between well-formed values of the same
// kind is valid JSON of the same structure, so that no more needs to be looked at. Everything else
// takes the long way. Not thread-safe: one for each thread.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loadgen/event_fields.h"

namespace millrace::bench {

class EventReader {
 public:
  // The views in it are of `json`, but finish_reason, which holds until the next call.
  Result<EventFields> read(std::string_view json);

  // Of all events so far, those that took the long way; for the benchmark.
  size_t num_long_reads() const { return num_long_reads_; }

 private:
  // A stream has few kinds of events: a role, texts, an end, the usage.
  static constexpr size_t kNumTemplates = 8;
  // An answer that is not a stream's would cost more to remember than it saves.
  static constexpr size_t kTemplateBytesMax = 4096;

  struct Template {
    std::string bytes;        // of the event it was made of
    std::vector<Hole> holes;  // in it
    EventFields fields;       // without what the holes fill; finish_reason lies in `bytes`
  };

  static bool match(const Template& like, std::string_view json, EventFields& fields);
  void remember(std::string_view json, const EventFields& fields);

  std::array<Template, kNumTemplates> templates_;
  size_t num_templates_ = 0;
  size_t last_ = 0;  // that matched: tried first
  size_t next_ = 0;  // to be replaced
  std::vector<Hole> holes_;
  size_t num_long_reads_ = 0;
};

}  // namespace millrace::bench
