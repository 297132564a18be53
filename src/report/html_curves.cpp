#include "report/html_curves.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "base/check.h"

namespace millrace::bench {
namespace {

// Points of the tail, beyond the 99th percentile, where figures of interest lie closest.
constexpr size_t kTailPoints = 100;

double to_ms(Nanos time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

bool is_shown(const RequestRecord& request) {
  return request.phase == Phase::kMeasured && request.outcome != Outcome::kFailed;
}

// When the first token came, as far as is known.
std::optional<Nanos> first_token(const RequestRecord& request) {
  if (request.first_token) return request.first_token;
  if (request.first_text) return request.first_text;
  return request.outcome == Outcome::kCompleted ? request.first_chunk : std::nullopt;
}

struct Sample {
  double value = 0.0;
  double weight = 1.0;
  bool is_censored = false;  // it would have been longer
};

// `count` places from `begin` to `end` - 1, evenly, with both ends; all where there are fewer.
void pick(size_t begin, size_t end, size_t count, std::vector<size_t>& places) {
  const size_t size = end - begin;
  for (size_t k = 0; k < std::min(size, count); ++k) {
    places.push_back(size <= count ? begin + k : begin + k * (size - 1) / (count - 1));
  }
}

void thin_out(Curve& curve) {
  if (curve.x.size() <= kCurvePointsMax) return;
  const auto tail = std::lower_bound(curve.y.begin(), curve.y.end(), 0.99);
  const size_t tail_begin = static_cast<size_t>(tail - curve.y.begin());
  std::vector<size_t> places;
  pick(0, tail_begin, kCurvePointsMax - kTailPoints, places);
  pick(tail_begin, curve.x.size(), kTailPoints, places);
  Curve thin = {.num_samples = curve.num_samples, .num_censored = curve.num_censored};
  for (const size_t place : places) {
    thin.x.push_back(curve.x[place]);
    thin.y.push_back(curve.y[place]);
  }
  curve = std::move(thin);
}

// The estimate of Kaplan and Meier: what is censored at a time was still there at that time.
Curve make_curve(std::vector<Sample> samples) {
  std::sort(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) {
    return a.value != b.value ? a.value < b.value : a.is_censored < b.is_censored;
  });
  Curve curve;
  double at_risk = 0.0;
  for (const Sample& sample : samples) at_risk += sample.weight;
  double share_above = 1.0;
  double num_samples = 0.0;
  for (size_t i = 0; i < samples.size();) {
    double num_ended = 0.0;
    double num_gone = 0.0;
    const double value = samples[i].value;
    for (; i < samples.size() && samples[i].value == value; ++i) {
      num_gone += samples[i].weight;
      if (samples[i].is_censored) {
        ++curve.num_censored;
      } else {
        num_ended += samples[i].weight;
      }
    }
    if (num_ended > 0.0) {
      share_above *= 1.0 - num_ended / at_risk;
      num_samples += num_ended;
      curve.x.push_back(value);
      curve.y.push_back(std::clamp(1.0 - share_above, 0.0, 1.0));
    }
    at_risk -= num_gone;
  }
  curve.num_samples = static_cast<int64_t>(num_samples);
  thin_out(curve);
  return curve;
}

void add_gaps(const RequestRecord& request, std::vector<Sample>& samples) {
  const bool has_shares =
      std::any_of(request.chunks.begin(), request.chunks.end(), [](const Chunk& chunk) {
        return chunk.num_tokens > 0;
      });
  std::optional<Nanos> before;
  for (const Chunk& chunk : request.chunks) {
    if (has_shares && chunk.num_tokens == 0) continue;
    const double num_tokens = has_shares ? static_cast<double>(chunk.num_tokens) : 1.0;
    if (before) samples.push_back({to_ms(chunk.at() - *before) / num_tokens, num_tokens});
    before = chunk.at();
  }
}

double seconds_since(Nanos origin, Nanos time) {
  return std::chrono::duration<double>(time - origin).count();
}

void add_requests(
    std::span<const RequestRecord* const> requests, Nanos origin, Timeline& timeline
) {
  std::vector<size_t> places;
  pick(0, requests.size(), kTimelineRequestsMax, places);
  for (const size_t place : places) {
    const RequestRecord& request = *requests[place];
    timeline.requests.push_back({
        .scheduled = seconds_since(origin, request.scheduled),
        .sent = seconds_since(origin, request.sent),
        .first_token = seconds_since(origin, first_token(request).value_or(request.ended)),
        .ended = seconds_since(origin, request.ended),
        .outcome = request.outcome,
        .index = request.index,
    });
  }
}

// The shortest of 1, 2 and 5 times a power of ten that divides `duration_s` in so many at most.
double bucket_seconds(double duration_s) {
  double unit = 0.001;
  while (true) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (duration_s <= unit * factor * static_cast<double>(kTimelineBucketsMax)) {
        return unit * factor;
      }
    }
    unit *= 10.0;
  }
}

// Where chunks' shares are unknown, each has an equal one.
void add_tokens(const RequestRecord& request, Nanos origin, Timeline& timeline) {
  double num_known = 0.0;
  for (const Chunk& chunk : request.chunks) num_known += static_cast<double>(chunk.num_tokens);
  const double share = num_known > 0.0 || request.chunks.empty()
                           ? 0.0
                           : static_cast<double>(request.num_output_tokens) /
                                 static_cast<double>(request.chunks.size());
  for (const Chunk& chunk : request.chunks) {
    const double at_s = std::max(0.0, seconds_since(origin, chunk.at()));
    const size_t bucket = static_cast<size_t>(at_s / timeline.bucket_s);
    if (bucket >= timeline.output_throughput.size()) continue;
    const double num_tokens = num_known > 0.0 ? static_cast<double>(chunk.num_tokens) : share;
    timeline.output_throughput[bucket] += num_tokens / timeline.bucket_s;
  }
}

void add_in_flight(
    std::span<const RequestRecord* const> requests, Nanos origin, Timeline& timeline
) {
  std::vector<double> starts;
  std::vector<double> ends;
  for (const RequestRecord* request : requests) {
    starts.push_back(seconds_since(origin, request->sent));
    ends.push_back(seconds_since(origin, request->ended));
  }
  std::sort(starts.begin(), starts.end());
  std::sort(ends.begin(), ends.end());
  for (size_t i = 0; i < timeline.num_in_flight.size(); ++i) {
    const double middle = (static_cast<double>(i) + 0.5) * timeline.bucket_s;
    const auto num_until = [&](const std::vector<double>& times) {
      return std::upper_bound(times.begin(), times.end(), middle) - times.begin();
    };
    timeline.num_in_flight[i] = num_until(starts) - num_until(ends);
  }
}

}  // namespace

Curve ttft_curve(const PointRecord& record) {
  std::vector<Sample> samples;
  for (const RequestRecord& request : record.requests) {
    if (!is_shown(request)) continue;
    const auto first = first_token(request);
    if (!first && request.outcome == Outcome::kCompleted) continue;  // without a token
    samples.push_back(
        {.value = to_ms(first.value_or(request.ended) - request.sent), .is_censored = !first}
    );
  }
  return make_curve(std::move(samples));
}

Curve e2e_curve(const PointRecord& record) {
  std::vector<Sample> samples;
  for (const RequestRecord& request : record.requests) {
    if (!is_shown(request)) continue;
    const bool is_censored = request.outcome == Outcome::kUnfinished;
    const Nanos end = is_censored ? request.ended : request.last_token.value_or(request.ended);
    samples.push_back({.value = to_ms(end - request.sent), .is_censored = is_censored});
  }
  return make_curve(std::move(samples));
}

Curve itl_curve(const PointRecord& record) {
  size_t num_chunks = 0;
  for (const RequestRecord& request : record.requests) num_chunks += request.chunks.size();
  const size_t stride = 1 + num_chunks / kItlChunksMax;
  std::vector<Sample> samples;
  for (size_t i = 0; i < record.requests.size(); i += stride) {
    if (is_shown(record.requests[i])) add_gaps(record.requests[i], samples);
  }
  return make_curve(std::move(samples));
}

Timeline make_timeline(const PointRecord& record) {
  std::vector<const RequestRecord*> requests;
  for (const RequestRecord& request : record.requests) {
    if (request.phase == Phase::kMeasured) requests.push_back(&request);
  }
  std::stable_sort(requests.begin(), requests.end(), [](const auto* a, const auto* b) {
    return a->sent < b->sent;
  });
  const Nanos origin = record.first_dispatch;
  Timeline timeline;
  timeline.num_requests = static_cast<int64_t>(requests.size());
  add_requests(requests, origin, timeline);

  Nanos end = record.finished;
  for (const RequestRecord* request : requests) end = std::max(end, request->ended);
  const double duration_s = std::max(0.0, seconds_since(origin, end));
  timeline.bucket_s = bucket_seconds(duration_s);
  const size_t num_buckets =
      std::min(kTimelineBucketsMax, static_cast<size_t>(std::ceil(duration_s / timeline.bucket_s)));
  const bool has_chunks = std::any_of(requests.begin(), requests.end(), [](const auto* request) {
    return !request->chunks.empty();
  });
  timeline.output_throughput.resize(has_chunks ? num_buckets : 0);
  timeline.num_in_flight.resize(num_buckets);
  for (const RequestRecord* request : requests) add_tokens(*request, origin, timeline);
  add_in_flight(requests, origin, timeline);

  std::vector<size_t> places;
  pick(0, record.server.size(), kTimelineSamplesMax, places);
  for (const size_t place : places) timeline.server.push_back(record.server[place]);
  return timeline;
}

}  // namespace millrace::bench
