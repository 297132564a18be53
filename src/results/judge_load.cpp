// The rules that ask whether the load was what the plan says, and whether it is the server that was
// measured.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "results/judge_rules.h"
#include "results/statistics.h"

namespace millrace::bench {
namespace {

constexpr double kRateOff = 0.01;
constexpr double kRateFarOff = 0.05;
constexpr size_t kRequestsForRate = 10;
constexpr double kThreadBusy = 0.8;
constexpr double kThreadSaturated = 0.95;
constexpr double kFilesNear = 0.9;
constexpr double kLagMs = 1.0;
constexpr double kLagMsMin = 0.05;  // what a clock and a system call cost is no lag
constexpr double kLagShare = 0.01;
constexpr double kLagFar = 10.0;  // times the above
constexpr double kQueueShare = 0.1;
constexpr double kFloorShare = 0.01;
constexpr double kFloorShareWarn = 0.005;
constexpr double kTrendPValue = 0.01;
constexpr double kTrendShare = 0.1;
constexpr size_t kRequestsForTrend = 20;
constexpr size_t kTrendBlocks = 20;

using Seconds = std::chrono::duration<double>;
using Millis = std::chrono::duration<double, std::milli>;

std::optional<double> median_of(const PointSummary& row, Metric metric) {
  return row[metric] ? row[metric]->percentile(50.0) : std::nullopt;
}

// Requests that left this machine.
std::vector<const RequestRecord*> sent_requests(const Evidence& evidence) {
  std::vector<const RequestRecord*> sent;
  for (const RequestRecord* request : evidence.measured) {
    if (request->sent >= request->admitted) sent.push_back(request);
  }
  std::stable_sort(sent.begin(), sent.end(), [](const RequestRecord* a, const RequestRecord* b) {
    return a->sent < b->sent;
  });
  return sent;
}

// Means of contiguous blocks: neighbours share the server's state, and taken one by one they would
// make any wave look like a trend.
void block_means(std::vector<double>& values) {
  const size_t n = values.size();
  if (n < 2 * kTrendBlocks) return;
  std::vector<double> means(kTrendBlocks);
  for (size_t block = 0; block < kTrendBlocks; ++block) {
    const size_t begin = block * n / kTrendBlocks;
    const size_t end = (block + 1) * n / kTrendBlocks;
    for (size_t i = begin; i < end; ++i) means[block] += values[i] / double(end - begin);
  }
  values = std::move(means);
}

struct Trend {
  double from_ms = 0.0;
  double to_ms = 0.0;
  double p_value = 1.0;
};

// Of a time over the steady window. none: it stays where it is.
std::optional<Trend> find_trend(
    const std::vector<const RequestRecord*>& requests, const auto& time_of
) {
  std::vector<double> at;
  std::vector<double> times;
  for (const RequestRecord* request : requests) {
    const std::optional<Nanos> end = time_of(*request);
    if (!end) continue;
    at.push_back(Seconds(request->sent).count());
    times.push_back(Millis(*end - request->sent).count());
  }
  if (at.size() < kRequestsForTrend) return std::nullopt;
  block_means(at);
  block_means(times);
  const std::optional<Slope> fit = fit_slope(at, times);
  if (!fit) return std::nullopt;
  const Trend trend{
      .from_ms = fit->intercept + fit->slope * at.front(),
      .to_ms = fit->intercept + fit->slope * at.back(),
      .p_value = fit->p_value,
  };
  const double mean = (trend.from_ms + trend.to_ms) / 2.0;
  const bool is_trend =
      trend.p_value < kTrendPValue && std::abs(trend.to_ms - trend.from_ms) > kTrendShare * mean;
  return is_trend ? std::optional(trend) : std::nullopt;
}

std::vector<const RequestRecord*> completed_from_to(
    const Evidence& evidence, double from_s, double to_s
) {
  std::vector<const RequestRecord*> requests;
  for (const RequestRecord* request : sent_requests(evidence)) {
    const double at = Seconds(request->sent).count();
    if (request->outcome == Outcome::kCompleted && from_s <= at && at < to_s) {
      requests.push_back(request);
    }
  }
  return requests;
}

// An open loop finds an empty server, and has as many under way as it will have one latency later.
// It has no window of its own: where it is too much for the server, the most is under way at the
// end.
std::vector<const RequestRecord*> without_run_in(const Evidence& evidence) {
  const auto& e2e = evidence.ours[Metric::kE2e];
  const std::vector<const RequestRecord*> sent = sent_requests(evidence);
  if (!e2e || sent.empty()) return {};
  const double from_s = Seconds(sent.front()->sent).count() + e2e->mean / 1000.0;
  return completed_from_to(evidence, from_s, HUGE_VAL);
}

// Of a closed loop, whose first wave comes all at once and waits for itself.
std::vector<const RequestRecord*> within_steady_window(const Evidence& evidence) {
  const std::optional<Interval>& window = evidence.ours.steady;
  if (!window) return {};
  std::vector<const RequestRecord*> requests =
      completed_from_to(evidence, window->low, window->high);
  const int64_t concurrency = evidence.record.plan.load.max_concurrency.value_or(0);
  const auto num_first =
      std::min(static_cast<size_t>(std::max<int64_t>(0, concurrency)), requests.size());
  requests.erase(requests.begin(), requests.begin() + static_cast<std::ptrdiff_t>(num_first));
  return requests;
}

}  // namespace

void judge_rate(const Evidence& evidence) {
  const LoadPlan& load = evidence.record.plan.load;
  const bool has_rate = load.kind == LoadKind::kConstant || load.kind == LoadKind::kGamma;
  if (!has_rate || !load.ramp.empty() || !std::isfinite(load.request_rate)) return;
  const std::vector<const RequestRecord*> sent = sent_requests(evidence);
  if (sent.size() < kRequestsForRate || load.request_rate <= 0.0) return;
  const auto num_gaps = static_cast<double>(sent.size() - 1);
  const double seconds = Seconds(sent.back()->sent - sent.front()->sent).count();
  const double rate = seconds > 0.0 ? num_gaps / seconds : HUGE_VAL;
  const double off = std::abs(rate / load.request_rate - 1.0);
  // The mean of n gamma gaps is off by itself: by 1 / sqrt(burstiness * n), twice in 20 times.
  const double by_chance = load.kind == LoadKind::kGamma
                               ? 2.0 / std::sqrt(std::max(load.burstiness, 1e-9) * num_gaps)
                               : 0.0;
  if (off <= kRateOff + by_chance) return;
  evidence.add(
      off > kRateFarOff + by_chance ? Trust::kInvalid : Trust::kWarn,
      "rate",
      fmt::format(
          "{:.2f} requests/s were sent; asked for were {:.2f} ({:+.1f} %, of which {:.1f} % may be "
          "chance)",
          rate,
          load.request_rate,
          100.0 * (rate / load.request_rate - 1.0),
          100.0 * by_chance
      )
  );
}

void judge_client_use(const Evidence& evidence) {
  const ClientUse& client = evidence.record.client;
  if (client.busiest_thread_share > kThreadBusy) {
    evidence.add(
        client.busiest_thread_share > kThreadSaturated ? Trust::kInvalid : Trust::kWarn,
        "client_saturated",
        fmt::format(
            "a thread of this client was busy {:.0f} % of the time; it has {}",
            100.0 * client.busiest_thread_share,
            client.num_threads
        )
    );
  }
  const auto num_limited = std::count_if(
      evidence.measured.begin(),
      evidence.measured.end(),
      [](const RequestRecord* request) { return request->failure == FailureKind::kClientLimit; }
  );
  const bool is_near =
      client.open_files_limit > 0 && static_cast<double>(client.num_connections) >=
                                         kFilesNear * static_cast<double>(client.open_files_limit);
  if (num_limited == 0 && !is_near) return;
  evidence.add(
      num_limited > 0 ? Trust::kInvalid : Trust::kWarn,
      "client_limit",
      fmt::format(
          "{} requests found no file descriptor or port here; {} connections, at most {} files",
          num_limited,
          client.num_connections,
          client.open_files_limit
      )
  );
}

void judge_schedule_lag(const Evidence& evidence) {
  const LoadPlan& load = evidence.record.plan.load;
  // Where nothing limits an open loop, being admitted late is the client's own doing.
  const bool is_held_back = !load.is_open_loop() || load.max_concurrency.has_value();
  std::vector<Sample> lags;
  for (const RequestRecord* request : sent_requests(evidence)) {
    const Nanos wanted =
        is_held_back ? std::max(request->scheduled, request->admitted) : request->scheduled;
    lags.push_back({.value = Millis(request->sent - wanted).count()});
  }
  if (lags.empty()) return;
  sort_samples(lags);
  const double lag = percentile(lags, 99.0, Quantiles::kLinear);
  const double ttft = median_of(evidence.ours, Metric::kTtft).value_or(HUGE_VAL);
  const double allowed = std::clamp(kLagShare * ttft, kLagMsMin, kLagMs);
  if (lag <= allowed) return;
  evidence.add(
      lag > kLagFar * allowed ? Trust::kInvalid : Trust::kWarn,
      "schedule_lag",
      fmt::format(
          "p99 of the client's own delay before it sends is {:.3f} ms; {:.3f} ms would do (p50 of "
          "TTFT is {:.3f} ms)",
          lag,
          allowed,
          ttft
      )
  );
}

void judge_client_queue(const Evidence& evidence) {
  const LoadPlan& load = evidence.record.plan.load;
  if (!load.is_open_loop() || !load.max_concurrency || evidence.measured.empty()) return;
  double queued = 0.0;
  for (const RequestRecord* request : evidence.measured) {
    queued += std::max(0.0, Millis(request->admitted - request->scheduled).count());
  }
  queued /= static_cast<double>(evidence.measured.size());
  const auto& ttft = evidence.ours[Metric::kTtft];
  if (!ttft || queued <= kQueueShare * (queued + ttft->mean)) return;
  evidence.add(
      Trust::kWarn,
      "client_queue",
      fmt::format(
          "requests waited {:.1f} ms on average for max_concurrency before they were sent; mean "
          "TTFT "
          "from the sending is {:.1f} ms: read the times from the schedule",
          queued,
          ttft->mean
      )
  );
}

void judge_client_floor(const Evidence& evidence) {
  const std::optional<Calibration>& floor = evidence.record.calibration;
  if (!floor) return;
  double worst = 0.0;
  std::string message;
  const auto compare = [&](std::string_view name, double of_client, std::optional<double> measured
                       ) {
    if (!measured || *measured <= 0.0 || of_client / *measured <= worst) return;
    worst = of_client / *measured;
    message = fmt::format(
        "this client adds {:.3f} ms of its own to {} ({:.2f} % of {:.3f} ms)",
        of_client,
        name,
        100.0 * worst,
        *measured
    );
  };
  compare("TTFT", floor->ttft_p50_ms, median_of(evidence.ours, Metric::kTtft));
  compare("ITL", floor->itl_p50_ms, median_of(evidence.ours, Metric::kItl));
  const double rate = evidence.ours.request_throughput.value_or(0.0);
  // An open loop reaches no more than it is asked for; a client that cannot keep up is late.
  const bool has_limit = !evidence.record.plan.load.is_open_loop() && floor->requests_per_s > 0.0;
  if (has_limit && floor->requests_per_s <= rate) {
    worst = 1.0;
    message = fmt::format(
        "this client alone reaches {:.1f} requests/s; measured were {:.1f}",
        floor->requests_per_s,
        rate
    );
  }
  if (worst <= kFloorShareWarn) return;
  evidence.add(worst > kFloorShare ? Trust::kInvalid : Trust::kWarn, "client_floor", message);
}

void judge_stationarity(const Evidence& evidence) {
  const LoadPlan& load = evidence.record.plan.load;
  // All at once is one queue that is served to its end: nothing in it is steady.
  if (load.kind == LoadKind::kBurst && !load.max_concurrency) return;
  if (!load.ramp.empty() || load.kind == LoadKind::kTrace) return;
  const std::vector<const RequestRecord*> steady =
      load.is_open_loop() ? without_run_in(evidence) : within_steady_window(evidence);
  if (steady.empty()) return;
  const std::pair<std::string_view, std::optional<Trend>> trends[] = {
      {"TTFT", find_trend(steady, [](const RequestRecord& r) { return r.first_token; })},
      {"E2E", find_trend(steady, [](const RequestRecord& r) { return r.last_token; })},
  };
  for (const auto& [name, trend] : trends) {
    if (!trend) continue;
    return evidence.add(
        Trust::kWarn,
        "not_stationary",
        fmt::format(
            "{} goes from {:.1f} to {:.1f} ms within {:.1f} s (p = {:.2g})",
            name,
            trend->from_ms,
            trend->to_ms,
            Seconds(steady.back()->sent - steady.front()->sent).count(),
            trend->p_value
        )
    );
  }
}

void judge_leftovers(const Evidence& evidence) {
  if (evidence.record.server.empty()) return;
  const ServerSample& first = evidence.record.server.front();
  const double num_running = first.num_running.value_or(0.0);
  const double num_waiting = first.num_waiting.value_or(0.0);
  if (num_running + num_waiting <= 0.0) return;
  evidence.add(
      Trust::kInvalid,
      "leftovers",
      fmt::format(
          "{:.0f} requests ran and {:.0f} waited on the server before the load began",
          num_running,
          num_waiting
      )
  );
}

}  // namespace millrace::bench
