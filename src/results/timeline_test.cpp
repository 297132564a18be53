#include "results/timeline.h"

#include <gtest/gtest.h>

#include <vector>

namespace millrace::bench {
namespace {

using std::chrono::milliseconds;

TimeSpan span_ms(int64_t begin, int64_t end) {
  return {.begin = milliseconds(begin), .end = milliseconds(end)};
}

TEST(Timeline, OneThatEndsAsAnotherBeginsDoesNotOverlapIt) {
  const std::vector<TimeSpan> spans = {span_ms(0, 10), span_ms(10, 20), span_ms(5, 12)};
  EXPECT_EQ(peak_concurrency(spans), 2);
  EXPECT_EQ(peak_concurrency({}), 0);
}

TEST(Timeline, SecondsCountAllThatTouchesThem) {
  // Never two at once, but three within the first second.
  const std::vector<TimeSpan> spans = {
      span_ms(100, 200), span_ms(300, 400), span_ms(500, 2600), span_ms(2700, 2800)};
  EXPECT_EQ(peak_concurrency(spans), 1);
  EXPECT_EQ(peak_concurrency_by_second(spans), 3);
}

TEST(Timeline, TheBestSecondIsCountedFromTheOrigin) {
  const std::vector<TokenEvent> events = {
      {milliseconds(1999), 2.0},
      {milliseconds(2000), 3.0},
      {milliseconds(2500), 4.0},
      {milliseconds(100), 50.0}};
  EXPECT_EQ(best_second(events, milliseconds(1000)), 7.0);
  EXPECT_EQ(best_second(events, milliseconds(1500)), 5.0);
  EXPECT_EQ(best_second({}, milliseconds(0)), 0.0);
}

TEST(Timeline, TheSteadyWindowIsTheLongestTimeNearThePeak) {
  // 1, 2, 3 under way, back to 2, then long at 3.
  const std::vector<TimeSpan> spans = {
      span_ms(0, 1000), span_ms(100, 900), span_ms(200, 300), span_ms(400, 850)};
  const auto window = steady_window(spans);
  ASSERT_TRUE(window.has_value());
  EXPECT_EQ(window->begin, milliseconds(400));
  EXPECT_EQ(window->end, milliseconds(850));
  const auto half = steady_window(spans, 0.5);
  EXPECT_EQ(half->begin, milliseconds(100));
  EXPECT_EQ(half->end, milliseconds(900));
  EXPECT_FALSE(steady_window({}).has_value());
}

TEST(Timeline, ASlotThatIsRefilledIsNotEmpty) {
  std::vector<TimeSpan> spans;
  for (int64_t i = 0; i < 10; ++i) spans.push_back(span_ms(i * 100, i * 100 + 98));
  const auto window = steady_window(spans);
  EXPECT_EQ(window->begin, milliseconds(0));
  EXPECT_EQ(window->end, milliseconds(998));
  spans[5].begin += milliseconds(50);
  EXPECT_EQ(steady_window(spans)->end, milliseconds(498));
}

}  // namespace
}  // namespace millrace::bench
