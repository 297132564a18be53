#include "results/timeline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace millrace::bench {
namespace {

// Longer than any client needs to refill a slot, shorter than any answer worth measuring.
constexpr Nanos kRefill = std::chrono::milliseconds(5);
constexpr Nanos kSecond = std::chrono::seconds(1);

// One request more or less from here on.
struct Change {
  Nanos at{0};
  int64_t by = 0;
};

// In the order of time; of one moment the ends come first, since a span's end is not in it.
std::vector<Change> changes(std::span<const TimeSpan> spans) {
  std::vector<Change> result;
  result.reserve(2 * spans.size());
  for (const TimeSpan& span : spans) {
    if (span.begin >= span.end) continue;
    result.push_back({span.begin, 1});
    result.push_back({span.end, -1});
  }
  std::sort(result.begin(), result.end(), [](const Change& a, const Change& b) {
    return a.at != b.at ? a.at < b.at : a.by < b.by;
  });
  return result;
}

int64_t peak(std::span<const Change> changes) {
  int64_t level = 0;
  int64_t best = 0;
  for (const Change& change : changes) best = std::max(best, level += change.by);
  return best;
}

}  // namespace

int64_t peak_concurrency(std::span<const TimeSpan> spans) {
  return peak(changes(spans));
}

int64_t peak_concurrency_by_second(std::span<const TimeSpan> spans) {
  if (spans.empty()) return 0;
  Nanos origin = spans.front().begin;
  for (const TimeSpan& span : spans) origin = std::min(origin, span.begin);
  std::map<int64_t, int64_t> changes;  // by second
  for (const TimeSpan& span : spans) {
    ++changes[(span.begin - origin) / kSecond];
    --changes[(std::max(span.end, span.begin) - origin) / kSecond + 1];
  }
  int64_t level = 0;
  int64_t best = 0;
  for (const auto& [second, by] : changes) best = std::max(best, level += by);
  return best;
}

std::optional<TimeSpan> steady_window(std::span<const TimeSpan> spans, double share) {
  const std::vector<Change> all = changes(spans);
  if (all.empty()) return std::nullopt;
  const auto wanted =
      static_cast<int64_t>(std::ceil(share * static_cast<double>(peak(all)) - 1e-9));
  std::optional<TimeSpan> best;
  std::optional<TimeSpan> current;
  int64_t level = 0;
  for (const Change& change : all) {
    const bool was_full = level >= wanted;
    level += change.by;
    if (was_full == (level >= wanted)) continue;
    if (was_full) {
      current->end = change.at;
      if (!best || current->end - current->begin > best->end - best->begin) best = current;
    } else if (!current || change.at - current->end > kRefill) {
      current = TimeSpan{.begin = change.at, .end = change.at};
    }
  }
  return best;
}

double best_second(std::span<const TokenEvent> events, Nanos origin) {
  std::map<int64_t, double> seconds;
  for (const TokenEvent& event : events) {
    if (event.at >= origin) seconds[(event.at - origin) / kSecond] += event.num_tokens;
  }
  double best = 0.0;
  for (const auto& [second, num_tokens] : seconds) best = std::max(best, num_tokens);
  return best;
}

}  // namespace millrace::bench
