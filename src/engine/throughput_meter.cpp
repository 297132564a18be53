#include "engine/throughput_meter.h"

#include <chrono>

namespace millrace {
namespace {

// Long enough to hold some steps of a slow model, short enough to follow a change of the load.
constexpr std::chrono::seconds kWindow{10};
constexpr std::chrono::seconds kMarkSpacing{1};

}  // namespace

void ThroughputMeter::resume(TimePoint now) {
  if (is_working_) return;
  is_working_ = true;
  working_since_ = now;
  if (marks_.empty()) marks_.push_back({.when = worked_, .totals = {}});
}

void ThroughputMeter::pause(TimePoint now) {
  if (!is_working_) return;
  worked_ = time_with_work(now);
  is_working_ = false;
}

void ThroughputMeter::note(TimePoint now, Totals totals) {
  const Duration when = time_with_work(now);
  const size_t size = marks_.size();
  // The last mark moves along until it is far enough from the one before it.
  if (size >= 2 && marks_[size - 1].when - marks_[size - 2].when < kMarkSpacing) {
    marks_.back() = {.when = when, .totals = totals};
  } else {
    marks_.push_back({.when = when, .totals = totals});
  }
  while (marks_.size() > 2 && marks_[1].when + kWindow <= when) marks_.pop_front();
}

ThroughputMeter::Rates ThroughputMeter::rates(TimePoint now) const {
  if (marks_.size() < 2) return {};
  const Mark& first = marks_.front();
  const Totals& last = marks_.back().totals;
  const double seconds = to_seconds(time_with_work(now) - first.when);
  if (seconds <= 0.0) return {};
  const auto rate = [seconds](int64_t from, int64_t to) {
    return static_cast<double>(to - from) / seconds;
  };
  return {
      .computed_tokens_per_second =
          rate(first.totals.num_computed_tokens, last.num_computed_tokens),
      .output_tokens_per_second = rate(first.totals.num_output_tokens, last.num_output_tokens),
  };
}

Duration ThroughputMeter::time_with_work(TimePoint now) const {
  return is_working_ && now > working_since_ ? worked_ + (now - working_since_) : worked_;
}

}  // namespace millrace
