// What a page draws of a record's requests, cut down to as many points as an eye can tell apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "results/point_record.h"
#include "results/point_summary.h"

namespace millrace::bench {

inline constexpr size_t kCurvePointsMax = 500;
inline constexpr size_t kItlChunksMax = 4'000'000;
inline constexpr size_t kTimelineRequestsMax = 1000;
inline constexpr size_t kTimelineSamplesMax = 500;
inline constexpr size_t kTimelineBucketsMax = 200;

// A distribution function: the share of samples that are at most x. Steps: y holds from its x on.
struct Curve {
  std::vector<double> x;  // ascending; milliseconds. [at most kCurvePointsMax]
  std::vector<double> y;  // ascending, 0 to 1
  int64_t num_samples = 0;
  int64_t num_censored = 0;  // requests cut off before they had such a time
};

struct Curves {
  Curve ttft, itl, e2e;
};

// Of the samples that a summary by the same formulas has. By our own, requests that were cut off
// count as longer than they were watched (Kaplan and Meier 1958). Gaps are those of every so
// many-th request where there are more than kItlChunksMax chunks.
Curves make_curves(const PointRecord& record, Formulas formulas = Formulas::kMillrace);

// Seconds since the first dispatch.
struct TimelineRequest {
  double scheduled = 0.0;
  double sent = 0.0;
  double first_token = 0.0;  // `ended` where none came
  double ended = 0.0;
  Outcome outcome = Outcome::kUnfinished;
  int64_t index = 0;
};

struct Timeline {
  // By sending, evenly picked where there are more than kTimelineRequestsMax.
  std::vector<TimelineRequest> requests;
  int64_t num_requests = 0;  // that there are
  // [at most kTimelineBucketsMax]: from 0 on, each `bucket_s` long.
  double bucket_s = 1.0;
  std::vector<double> output_throughput;  // tokens per second; empty: chunks were not kept
  std::vector<int64_t> num_in_flight;     // in the bucket's middle
  std::vector<ServerSample> server;       // [at most kTimelineSamplesMax], evenly picked
};

// Of the measured requests.
Timeline make_timeline(const PointRecord& record);

}  // namespace millrace::bench
