#include "report/html/curves.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "results/formulas.h"
#include "results/statistics.h"
#include "results/timeline.h"

namespace millrace::bench {
namespace {

// Points of the tail, beyond the 99th percentile, where figures of interest lie closest.
constexpr size_t kTailPoints = 100;

// When the first token came, as far as is known.
std::optional<Nanos> first_token(const RequestRecord& request) {
  return request.first_token ? request.first_token : request.first_text;
}

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

Curve make_curve(std::vector<Sample> samples) {
  sort_samples(samples);
  Curve curve;
  for (const Sample& sample : samples) {
    if (sample.is_censored) {
      ++curve.num_censored;
    } else {
      curve.num_samples += std::llround(sample.weight);
    }
  }
  double share = 0.0;
  for (const Survival::Step& step : survival(samples).steps) {
    share = std::min(1.0, share + step.share);
    if (!curve.x.empty() && curve.x.back() == step.value) {
      curve.y.back() = share;
    } else {
      curve.x.push_back(step.value);
      curve.y.push_back(share);
    }
  }
  thin_out(curve);
  return curve;
}

void add_sample(const std::optional<Measured>& measured, std::vector<Sample>& samples) {
  if (!measured) return;
  samples.push_back(
      {.value = measured->ms, .weight = measured->weight, .is_censored = measured->is_censored}
  );
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

void add_tokens(std::span<const TokenEvent> events, Nanos origin, Timeline& timeline) {
  for (const TokenEvent& event : events) {
    const double at_s = std::max(0.0, seconds_since(origin, event.at));
    const size_t bucket = static_cast<size_t>(at_s / timeline.bucket_s);
    if (bucket >= timeline.output_throughput.size()) continue;
    timeline.output_throughput[bucket] += event.num_tokens / timeline.bucket_s;
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

Curves make_curves(const PointRecord& record, Formulas formulas) {
  size_t num_chunks = 0;
  for (const RequestRecord& request : record.requests) num_chunks += request.chunks.size();
  const size_t stride = 1 + num_chunks / kItlChunksMax;
  std::vector<Sample> ttft, itl, e2e;
  for (size_t i = 0; i < record.requests.size(); ++i) {
    const RequestRecord& request = record.requests[i];
    const bool counts =
        request.outcome == Outcome::kCompleted ||
        (request.outcome == Outcome::kUnfinished && formulas == Formulas::kMillrace);
    if (request.phase != Phase::kMeasured || !counts) continue;
    const RequestFigures figures = request_figures(formulas, record.plan, request);
    add_sample(figures.ttft, ttft);
    add_sample(figures.e2e, e2e);
    if (i % stride != 0) continue;
    for (const Gap& gap : figures.itl) itl.push_back({.value = gap.ms, .weight = gap.weight});
  }
  return {
      .ttft = make_curve(std::move(ttft)),
      .itl = make_curve(std::move(itl)),
      .e2e = make_curve(std::move(e2e))};
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
  for (const RequestRecord* request : requests) {
    const std::vector<Chunk> chunks = content_chunks(*request, first_token(*request));
    add_tokens(token_events(*request, chunks), origin, timeline);
  }
  add_in_flight(requests, origin, timeline);

  std::vector<size_t> places;
  pick(0, record.server.size(), kTimelineSamplesMax, places);
  for (const size_t place : places) timeline.server.push_back(record.server[place]);
  return timeline;
}

}  // namespace millrace::bench
