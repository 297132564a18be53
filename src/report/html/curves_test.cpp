#include "report/html/curves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "report/test_points.h"

namespace millrace::bench {
namespace {

using ::testing::ElementsAre;

RequestRecord request_of(double ttft_s, double e2e_s, Outcome outcome = Outcome::kCompleted) {
  RequestRecord request;
  request.outcome = outcome;
  if (outcome == Outcome::kCompleted) request.first_token = test_nanos(ttft_s);
  request.ended = test_nanos(e2e_s);
  return request;
}

void add_chunk(RequestRecord& request, int64_t at_ms, uint16_t num_tokens) {
  request.chunks.push_back(Chunk::make(std::chrono::milliseconds(at_ms), num_tokens));
}

TEST(HtmlCurves, IsTheDistributionOfWhatWasMeasured) {
  PointRecord record;
  for (const double ttft : {0.3, 0.1, 0.2, 0.2}) record.requests.push_back(request_of(ttft, 1.0));
  record.requests.push_back(request_of(9.0, 9.0));
  record.requests.back().phase = Phase::kWarmup;
  record.requests.push_back(request_of(9.0, 9.0, Outcome::kFailed));
  const Curve curve = make_curves(record).ttft;
  EXPECT_EQ(curve.num_samples, 4);
  EXPECT_EQ(curve.num_censored, 0);
  EXPECT_THAT(curve.x, ElementsAre(100.0, 200.0, 300.0));
  ASSERT_EQ(curve.y.size(), 3u);
  EXPECT_NEAR(curve.y[0], 0.25, 1e-12);
  EXPECT_NEAR(curve.y[1], 0.75, 1e-12);
  EXPECT_NEAR(curve.y[2], 1.0, 1e-12);
}

// Kaplan and Meier by hand: at 1 s one of four ends; one is cut off at 2 s; at 3 s one of two ends.
TEST(HtmlCurves, RequestsThatWereCutOffCountAsLonger) {
  PointRecord record;
  record.requests = {
      request_of(0.1, 1.0),
      request_of(0.1, 2.0, Outcome::kUnfinished),
      request_of(0.1, 3.0),
      request_of(0.1, 4.0, Outcome::kUnfinished)};
  const Curve curve = make_curves(record).e2e;
  EXPECT_EQ(curve.num_samples, 2);
  EXPECT_EQ(curve.num_censored, 2);
  EXPECT_THAT(curve.x, ElementsAre(1000.0, 3000.0));
  ASSERT_EQ(curve.y.size(), 2u);
  EXPECT_NEAR(curve.y[0], 0.25, 1e-12);
  EXPECT_NEAR(curve.y[1], 1.0 - 0.75 * 0.5, 1e-12);
}

TEST(HtmlCurves, AGapIsSharedByTheTokensOfItsChunk) {
  PointRecord record;
  RequestRecord request = request_of(0.01, 0.05);
  request.num_output_tokens = 5;
  add_chunk(request, 5, 0);  // a role alone
  add_chunk(request, 10, 1);
  add_chunk(request, 20, 1);
  add_chunk(request, 50, 3);
  record.requests = {request};
  const Curve tokens = make_curves(record).itl;
  EXPECT_EQ(tokens.num_samples, 4);
  EXPECT_THAT(tokens.x, ElementsAre(10.0));
  for (Chunk& chunk : record.requests[0].chunks) chunk.num_tokens = 0;
  record.requests[0].output_source = TokenSource::kUsage;
  const Curve chunks = make_curves(record).itl;
  EXPECT_EQ(chunks.num_samples, 2);
  EXPECT_EQ(chunks.x.size(), 2u);
}

TEST(HtmlCurves, AreThinnedOutButKeepEndsOrderAndShape) {
  PointRecord record;
  Rng rng(3);
  std::vector<double> samples;
  for (int i = 0; i < 20'000; ++i) {
    samples.push_back(-std::log(1.0 - rng.unit()));
    record.requests.push_back(request_of(samples.back(), 100.0));
  }
  std::sort(samples.begin(), samples.end());
  const Curve curve = make_curves(record).ttft;
  EXPECT_EQ(curve.num_samples, 20'000);
  EXPECT_LE(curve.x.size(), kCurvePointsMax);
  EXPECT_GT(curve.x.size(), kCurvePointsMax / 2);
  ASSERT_EQ(curve.x.size(), curve.y.size());
  EXPECT_TRUE(std::is_sorted(curve.x.begin(), curve.x.end()));
  EXPECT_TRUE(std::is_sorted(curve.y.begin(), curve.y.end()));
  EXPECT_NEAR(curve.x.front(), 1e3 * samples.front(), 1e-3);
  EXPECT_NEAR(curve.x.back(), 1e3 * samples.back(), 1e-3);
  EXPECT_NEAR(curve.y.back(), 1.0, 1e-9);
  // Between two points no more than a step of the thinning is lost.
  for (const double share : {0.1, 0.5, 0.9, 0.99, 0.999}) {
    const auto point = std::lower_bound(curve.y.begin(), curve.y.end(), share);
    const double exact = 1e3 * samples[static_cast<size_t>(share * 20'000.0)];
    EXPECT_NEAR(curve.x[static_cast<size_t>(point - curve.y.begin())], exact, 0.03 * exact);
  }
}

TEST(HtmlTimeline, CountsWhatIsUnderWayAndWhatComes) {
  PointRecord record;
  RequestRecord request = request_of(0.5, 1.0);
  add_chunk(request, 500, 1);
  add_chunk(request, 1000, 1);
  record.requests = {request, request};
  record.requests[1].sent = test_nanos(0.5);
  record.requests[1].chunks.clear();
  record.finished = test_nanos(1.0);
  const Timeline timeline = make_timeline(record);
  EXPECT_DOUBLE_EQ(timeline.bucket_s, 0.005);
  ASSERT_EQ(timeline.num_in_flight.size(), 200u);
  EXPECT_EQ(timeline.num_in_flight[0], 1);
  EXPECT_EQ(timeline.num_in_flight[199], 2);
  ASSERT_EQ(timeline.output_throughput.size(), 200u);
  EXPECT_NEAR(timeline.output_throughput[100], 200.0, 1e-9);
  ASSERT_EQ(timeline.requests.size(), 2u);
  EXPECT_DOUBLE_EQ(timeline.requests[0].first_token, 0.5);
  EXPECT_DOUBLE_EQ(timeline.requests[1].sent, 0.5);
}

TEST(HtmlTimeline, StaysWithinItsBounds) {
  PointRecord record = make_test_record({.request_rate = 200.0, .num_requests = 3'000});
  record.server.resize(2'000);
  const Timeline timeline = make_timeline(record);
  EXPECT_EQ(timeline.num_requests, 3'000);
  EXPECT_EQ(timeline.requests.size(), kTimelineRequestsMax);
  EXPECT_EQ(timeline.server.size(), kTimelineSamplesMax);
  EXPECT_LE(timeline.num_in_flight.size(), kTimelineBucketsMax);
  EXPECT_EQ(timeline.output_throughput.size(), timeline.num_in_flight.size());
  for (size_t i = 1; i < timeline.requests.size(); ++i) {
    EXPECT_LE(timeline.requests[i - 1].sent, timeline.requests[i].sent);
  }
}

TEST(HtmlTimeline, OfNothingIsEmpty) {
  const Timeline timeline = make_timeline({});
  EXPECT_TRUE(timeline.requests.empty());
  EXPECT_TRUE(timeline.num_in_flight.empty());
  EXPECT_TRUE(make_curves({}).ttft.x.empty());
}

}  // namespace
}  // namespace millrace::bench
