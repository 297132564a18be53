// What was under way when: figures of a point's time line. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "results/request_record.h"

namespace millrace::bench {

// From `begin` up to, not with, `end`.
struct TimeSpan {
  Nanos begin{0};
  Nanos end{0};

  bool holds(Nanos at) const { return begin <= at && at < end; }
  double seconds() const { return std::chrono::duration<double>(end - begin).count(); }
};

// The most spans that overlap at one moment.
int64_t peak_concurrency(std::span<const TimeSpan> spans);

// The most spans that touch one second, counted from the first begin: as SGLang's tool says it,
// more than ever were under way at once.
int64_t peak_concurrency_by_second(std::span<const TimeSpan> spans);

// The longest time in which at least `share` of the peak was under way, bridging what is refilled
// within 5 ms: a closed loop's slot is empty for a moment between its requests. none: no spans.
std::optional<TimeSpan> steady_window(std::span<const TimeSpan> spans, double share = 0.9);

// Tokens that came at one time.
struct TokenEvent {
  Nanos at{0};
  double num_tokens = 0.0;
};

// The most tokens that came in one second, of those counted from `origin`. 0: no tokens.
double best_second(std::span<const TokenEvent> events, Nanos origin);

}  // namespace millrace::bench
