// How many tokens a second an engine has made of late. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/clock.h"

namespace millrace {

// Looks back over the last seconds in which there was work: the time in which there was none tells
// nothing of what the engine can do.
class ThroughputMeter {
 public:
  struct Totals {
    int64_t num_computed_tokens = 0;  // since the start, as both of these
    int64_t num_output_tokens = 0;
  };
  struct Rates {
    double computed_tokens_per_second = 0.0;  // 0: not known yet, as both of these
    double output_tokens_per_second = 0.0;
  };

  // There is work from now on, or none any more. Idempotent; none at first.
  void resume(TimePoint now);
  void pause(TimePoint now);

  // What was made until now.
  void note(TimePoint now, Totals totals);

  // Of an engine that has stood still since the last note, less and less.
  Rates rates(TimePoint now) const;

 private:
  struct Mark {
    Duration when;  // in the time with work
    Totals totals;
  };

  Duration time_with_work(TimePoint now) const;

  Duration worked_{0};  // before the stretch that began at working_since_
  TimePoint working_since_;
  bool is_working_ = false;
  std::deque<Mark> marks_;  // at least one second apart, but for the last: the newest totals
};

}  // namespace millrace
