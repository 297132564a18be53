#include "engine/throughput_meter.h"

#include <gtest/gtest.h>

#include <chrono>

namespace millrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{seconds(1000)};

// Steps of 100 ms that compute 50 tokens and give 10, over `duration` from `begin`.
void run(ThroughputMeter& meter, TimePoint begin, Duration duration, int64_t& num_steps) {
  for (Duration passed = milliseconds(100); passed <= duration; passed += milliseconds(100)) {
    ++num_steps;
    meter.note(
        begin + passed, {.num_computed_tokens = num_steps * 50, .num_output_tokens = num_steps * 10}
    );
  }
}

TEST(ThroughputMeter, KnowsNothingBeforeTheFirstStep) {
  ThroughputMeter meter;
  EXPECT_EQ(meter.rates(kStart).computed_tokens_per_second, 0.0);
  meter.resume(kStart);
  EXPECT_EQ(meter.rates(kStart + seconds(3)).computed_tokens_per_second, 0.0);
}

TEST(ThroughputMeter, TellsTokensASecond) {
  ThroughputMeter meter;
  int64_t num_steps = 0;
  meter.resume(kStart);
  for (const Duration duration : {Duration(milliseconds(100)), Duration(seconds(100))}) {
    run(meter, kStart, duration, num_steps = 0);
    EXPECT_DOUBLE_EQ(meter.rates(kStart + duration).computed_tokens_per_second, 500.0);
    EXPECT_DOUBLE_EQ(meter.rates(kStart + duration).output_tokens_per_second, 100.0);
  }
}

TEST(ThroughputMeter, DoesNotCountTheTimeWithoutWork) {
  ThroughputMeter meter;
  int64_t num_steps = 0;
  TimePoint now = kStart;
  for (int i = 0; i < 20; ++i) {
    meter.resume(now);
    meter.resume(now + milliseconds(50));
    run(meter, now, milliseconds(500), num_steps);
    now += milliseconds(500);
    EXPECT_DOUBLE_EQ(meter.rates(now).computed_tokens_per_second, 500.0);
    meter.pause(now);
    meter.pause(now + seconds(1));
    now += std::chrono::hours(1);
    EXPECT_DOUBLE_EQ(meter.rates(now).computed_tokens_per_second, 500.0);
  }
}

TEST(ThroughputMeter, ForgetsWhatIsLongPast) {
  ThroughputMeter meter;
  int64_t num_steps = 0;
  meter.resume(kStart);
  run(meter, kStart, seconds(60), num_steps);
  // From now on a tenth of that.
  int64_t num_tokens = num_steps * 50;
  for (int second = 1; second <= 30; ++second) {
    num_tokens += 50;
    meter.note(kStart + seconds(60 + second), {.num_computed_tokens = num_tokens});
  }
  EXPECT_DOUBLE_EQ(meter.rates(kStart + seconds(90)).computed_tokens_per_second, 50.0);
}

TEST(ThroughputMeter, AnEngineThatStandsStillIsSlow) {
  ThroughputMeter meter;
  int64_t num_steps = 0;
  meter.resume(kStart);
  run(meter, kStart, seconds(1), num_steps);
  EXPECT_DOUBLE_EQ(meter.rates(kStart + seconds(100)).computed_tokens_per_second, 5.0);
}

}  // namespace
}  // namespace millrace
