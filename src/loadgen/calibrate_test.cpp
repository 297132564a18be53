// The client's own floor: whose load it is measured at.
#include "loadgen/calibrate.h"

#include <gtest/gtest.h>

namespace millrace::bench {
namespace {

constexpr Nanos kMs{1'000'000};

// `count` answers, one a second, each of 3 tokens: the first after 40 ms, then 20 ms apart.
PointRecord record_of(int64_t count, const LoadPlan& load) {
  PointRecord record;
  record.plan.load = load;
  record.client.num_threads = 2;
  for (int64_t i = 0; i < count; ++i) {
    RequestRecord request;
    request.phase = Phase::kMeasured;
    request.outcome = Outcome::kCompleted;
    request.sent = i * 1000 * kMs;
    request.first_token = request.sent + 40 * kMs;
    request.last_token = request.sent + 80 * kMs;
    request.num_output_tokens = 3;
    record.requests.push_back(std::move(request));
  }
  record.finished = count * 1000 * kMs;
  return record;
}

TEST(CalibrationLoad, IsThePointsOnAMockTwiceAsFast) {
  const PointRecord record = record_of(5, {.kind = LoadKind::kConcurrency, .max_concurrency = 3});
  const auto load = calibration_load_of(record, Protocol::kChat);
  ASSERT_TRUE(load);
  EXPECT_EQ(load->protocol, Protocol::kChat);
  EXPECT_FALSE(load->request_rate);
  EXPECT_EQ(load->concurrency, 3);
  EXPECT_EQ(load->ttft, 20 * kMs);
  EXPECT_EQ(load->itl, 10 * kMs);
  EXPECT_EQ(load->num_output_tokens, 3);
  EXPECT_EQ(load->num_threads, 2);
}

TEST(CalibrationLoad, IsWithinWhatASecondCanSay) {
  const auto slow = calibration_load_of(
      record_of(5, {.kind = LoadKind::kGamma, .request_rate = 1.0}), Protocol::kCompletions
  );
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->request_rate, 50.0);
  const auto wide = calibration_load_of(
      record_of(5, {.kind = LoadKind::kConcurrency, .max_concurrency = 5000}),
      Protocol::kCompletions
  );
  ASSERT_TRUE(wide);
  EXPECT_EQ(wide->concurrency, 1024);
  EXPECT_FALSE(calibration_load_of(record_of(0, {}), Protocol::kCompletions));
}

// It once was measured at 50 a second, under the name of what was asked.
TEST(Calibrate, KeepsToALowRate) {
  const Result<Calibration> floor = calibrate(
      {.request_rate = 10.0,
       .ttft = 1 * kMs,
       .itl = 1 * kMs,
       .num_output_tokens = 2,
       .duration = 1000 * kMs},
      {}
  );
  ASSERT_TRUE(floor) << floor.error().message;
  EXPECT_GT(floor->requests_per_s, 5.0);
  EXPECT_LT(floor->requests_per_s, 25.0);
}

}  // namespace
}  // namespace millrace::bench
