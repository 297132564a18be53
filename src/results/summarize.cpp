#include "results/summarize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/rng.h"
#include "results/bootstrap.h"
#include "results/formulas.h"
#include "results/grid_totals.h"
#include "results/judge.h"
#include "results/statistics.h"
#include "results/timeline.h"

namespace millrace::bench {
namespace {

constexpr std::array<double, 11> kRanks = {0.1, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9};

// A request of the measured phase with what the formulas made of it.
struct MeasuredRequest {
  const RequestRecord* record = nullptr;
  RequestFigures figures;

  bool is_completed() const { return record->outcome == Outcome::kCompleted; }
};

std::vector<double> all_ranks(const SummaryOptions& options) {
  std::vector<double> ranks(kRanks.begin(), kRanks.end());
  for (const double rank : options.percentiles) {
    if (rank >= 0.0 && rank <= 100.0) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

// One point under one tool's formulas, step by step.
class Summarizer {
 public:
  Summarizer(const PointRecord& record, const SummaryOptions& options)
      : record_(record), options_(options), duration_(point_span(record, options.formulas)) {
    summary_.plan = record.plan;
    summary_.formulas = options.formulas;
    summary_.started_unix_ns = record.started_unix_ns;
  }

  PointSummary run() && {
    count_outcomes();
    take_requests();
    find_window();
    add_totals();
    if (options_.formulas == Formulas::kGrid) grid_ = grid_totals(record_);
    add_metrics();
    add_rates();
    add_timeline();
    add_server();
    return std::move(summary_);
  }

 private:
  // Throughputs are over the time in which load was offered: a schedule's begins at zero, though
  // its first request comes only after a gap. vLLM's clock starts there whatever the load.
  static TimeSpan point_span(const PointRecord& record, Formulas formulas) {
    const bool is_from_zero = formulas == Formulas::kVllm ||
                              (formulas == Formulas::kMillrace && record.plan.load.is_open_loop());
    const Nanos first = record.first_dispatch;
    return {.begin = is_from_zero ? std::min(Nanos(0), first) : first, .end = record.finished};
  }

  bool is_ours() const { return options_.formulas == Formulas::kMillrace; }
  bool is_counted(Nanos at) const { return !options_.steady_only || duration_.holds(at); }

  void count_outcomes() {
    std::map<FailureKind, int64_t> failures;
    std::map<FailureKind, std::string> examples;
    int64_t num_failed = 0;
    int64_t num_unfinished = 0;
    for (const RequestRecord& request : record_.requests) {
      if (request.phase != Phase::kMeasured) continue;
      if (request.outcome == Outcome::kUnfinished) ++num_unfinished;
      if (request.outcome != Outcome::kFailed) continue;
      ++num_failed;
      const FailureKind kind = request.failure.value_or(FailureKind::kMalformed);
      ++failures[kind];
      examples.try_emplace(kind, request.error);
    }
    summary_.num_failed = num_failed;
    summary_.num_unfinished = num_unfinished;
    summary_.failures.assign(failures.begin(), failures.end());
    for (const auto& [kind, error] : examples) summary_.error_examples.push_back(error);
  }

  void take_requests() {
    for (const RequestRecord& request : record_.requests) {
      if (request.phase != Phase::kMeasured) continue;
      const bool is_used = request.outcome == Outcome::kCompleted ||
                           (is_ours() && request.outcome == Outcome::kUnfinished);
      if (!is_used) continue;
      requests_.push_back(
          {.record = &request, .figures = request_figures(options_.formulas, record_.plan, request)}
      );
    }
    // The bootstrap's blocks are of neighbours in time.
    std::stable_sort(requests_.begin(), requests_.end(), [](const auto& a, const auto& b) {
      return a.figures.span.begin < b.figures.span.begin;
    });
  }

  // Failed and unfinished requests were under way too, these until the point's end.
  std::vector<TimeSpan> all_spans() const {
    std::vector<TimeSpan> spans;
    for (const RequestRecord& request : record_.requests) {
      if (request.phase != Phase::kMeasured) continue;
      const Nanos end = std::max(request.sent, std::min(request.ended, record_.finished));
      spans.push_back({.begin = request.sent, .end = end});
    }
    return spans;
  }

  void find_window() {
    const std::vector<TimeSpan> spans = all_spans();
    const std::optional<TimeSpan> window = steady_window(spans);
    if (window) {
      using Seconds = std::chrono::duration<double>;
      summary_.steady =
          Interval{.low = Seconds(window->begin).count(), .high = Seconds(window->end).count()};
      if (options_.steady_only) duration_ = *window;
    }
    if (options_.formulas == Formulas::kGuidellm01 && !options_.steady_only) use_guidellm01_span();
    if (duration_.end > duration_.begin) summary_.duration_s = duration_.seconds();
  }

  // From the start of the request that ended first to the last end; those that did not complete do
  // not exist for it.
  void use_guidellm01_span() {
    const auto [first, last] = std::minmax_element(
        requests_.begin(),
        requests_.end(),
        [](const MeasuredRequest& a, const MeasuredRequest& b) {
          return a.figures.span.end < b.figures.span.end;
        }
    );
    if (first == requests_.end()) return;
    duration_ = {.begin = first->figures.span.begin, .end = last->figures.span.end};
  }

  void add_totals() {
    int64_t num_completed = 0;
    int64_t num_input = 0;
    int64_t num_output = 0;
    std::optional<int64_t> num_cached;
    for (const MeasuredRequest& request : requests_) {
      if (!request.is_completed() || !is_counted(request.figures.span.end)) continue;
      ++num_completed;
      num_input += request.figures.num_input_tokens;
      num_output += request.figures.num_output_tokens;
      if (request.record->num_cached_tokens) {
        num_cached = num_cached.value_or(0) + *request.record->num_cached_tokens;
      }
    }
    summary_.num_completed = num_completed;
    summary_.num_input_tokens = num_input;
    summary_.num_output_tokens = num_output;
    summary_.num_cached_tokens = num_cached;
  }

  void add_sample(Metric metric, size_t request, const std::optional<Measured>& time, Nanos at) {
    if (!time || !is_counted(at)) return;
    samples_[static_cast<size_t>(metric)].push_back({
        .value = time->ms,
        .weight = time->weight,
        .request = static_cast<uint32_t>(request),
        .is_censored = time->is_censored,
    });
  }

  void add_gaps(Metric metric, size_t request, const std::vector<Gap>& gaps) {
    for (const Gap& gap : gaps) {
      add_sample(metric, request, Measured{.ms = gap.ms, .weight = gap.weight}, gap.at);
    }
  }

  void add_metrics() {
    for (size_t i = 0; i < requests_.size(); ++i) {
      const RequestFigures& figures = requests_[i].figures;
      const Nanos end = figures.span.end;
      const Nanos first = figures.first.value_or(end);
      add_sample(Metric::kTtft, i, figures.ttft, first);
      add_sample(Metric::kTtftScheduled, i, figures.ttft_scheduled, first);
      add_sample(Metric::kTpot, i, figures.tpot, end);
      add_gaps(Metric::kItl, i, figures.itl);
      add_gaps(Metric::kIcl, i, figures.icl);
      add_sample(Metric::kE2e, i, figures.e2e, end);
      add_sample(Metric::kE2eScheduled, i, figures.e2e_scheduled, end);
      add_sample(Metric::kQueueTime, i, figures.queue_time, end);
      if (!requests_[i].is_completed()) continue;
      const auto as_sample = [](int64_t count) { return Measured{.ms = double(count)}; };
      add_sample(Metric::kInputLen, i, as_sample(figures.num_input_tokens), end);
      add_sample(Metric::kOutputLen, i, as_sample(figures.num_output_tokens), end);
    }
    const BlockBootstrap bootstrap(bootstrap_options());
    const std::vector<double> ranks = all_ranks(options_);
    for (size_t metric = 0; metric < kNumMetrics; ++metric) {
      summary_.metrics[metric] = distribution(samples_[metric], ranks, bootstrap);
    }
    if (grid_) {
      if (auto& ttft = summary_[Metric::kTtft]) ttft->mean = grid_->mean_ttft_ms;
      if (auto& e2e = summary_[Metric::kE2e]) e2e->mean = grid_->mean_e2e_ms;
    }
  }

  BlockBootstrap::Options bootstrap_options() const {
    return {
        .num_requests = requests_.size(),
        .num_resamples = std::clamp(options_.num_resamples, 0, kResamplesMax),
        .confidence = std::clamp(options_.confidence, 0.5, 0.9999),
        .seed = mix64(record_.plan.dataset.seed),
    };
  }

  std::optional<Distribution> distribution(
      std::vector<Sample>& samples,
      const std::vector<double>& ranks,
      const BlockBootstrap& bootstrap
  ) const {
    sort_samples(samples);
    const double weight = total_weight(samples);
    if (samples.empty() || weight <= 0.0) return std::nullopt;
    Distribution result;
    result.count = std::llround(weight);
    result.min = samples.front().value;
    result.max = samples.back().value;
    const bool is_censored =
        std::any_of(samples.begin(), samples.end(), [](const Sample& s) { return s.is_censored; });
    const Survival estimate = is_censored ? survival(samples) : Survival{};
    const Moments of = is_censored ? estimate.moments() : moments(samples);
    result.mean = of.mean;
    result.std = of.std;
    result.sum = of.mean * weight;
    const auto intervals = bootstrap.intervals(samples, ranks, quantiles_of(options_.formulas));
    result.mean_interval = intervals.mean;
    for (size_t i = 0; i < ranks.size(); ++i) {
      const double value = is_censored
                               ? estimate.percentile(ranks[i])
                               : percentile(samples, ranks[i], quantiles_of(options_.formulas));
      result.percentiles.push_back(
          {.rank = ranks[i], .value = value, .interval = intervals.percentiles[i]}
      );
    }
    return result;
  }

  // Those of the completed; ours counts what came of the unfinished as well, for it was served.
  double num_tokens_served() const {
    if (!is_ours()) return static_cast<double>(*summary_.num_output_tokens);
    double sum = 0.0;
    for (const MeasuredRequest& request : requests_) {
      if (!options_.steady_only) {
        sum += static_cast<double>(request.figures.num_output_tokens);
        continue;
      }
      for (const TokenEvent& event : tokens_over_time(request)) {
        if (is_counted(event.at)) sum += event.num_tokens;
      }
    }
    return sum;
  }

  // Without chunks all that is known is when the last one came.
  static std::vector<TokenEvent> tokens_over_time(const MeasuredRequest& request) {
    if (!request.figures.tokens.empty()) return request.figures.tokens;
    const auto num_tokens = static_cast<double>(request.figures.num_output_tokens);
    return {{.at = request.figures.span.end, .num_tokens = num_tokens}};
  }

  void add_rates() {
    if (grid_) {
      summary_.request_throughput = grid_->requests_per_s;
      summary_.input_throughput = grid_->input_tokens_per_s;
      summary_.output_throughput = grid_->output_tokens_per_s;
    } else if (summary_.duration_s && options_.formulas != Formulas::kGrid) {
      const double duration = *summary_.duration_s;
      summary_.request_throughput = static_cast<double>(*summary_.num_completed) / duration;
      summary_.input_throughput = static_cast<double>(*summary_.num_input_tokens) / duration;
      summary_.output_throughput = num_tokens_served() / duration;
      summary_.concurrency = seconds_under_way() / duration;
      add_throughput_intervals();
      add_goodput();
    }
    if (!summary_.output_throughput) return;
    summary_.total_throughput = *summary_.input_throughput + *summary_.output_throughput;
    if (record_.plan.price_per_hour && *summary_.output_throughput > 0.0) {
      summary_.cost_per_million_tokens =
          *record_.plan.price_per_hour / 3600.0 / *summary_.output_throughput * 1e6;
    }
  }

  double seconds_under_way() const {
    double sum = 0.0;
    const auto add = [&](const TimeSpan& span) {
      if (!options_.steady_only) return sum += span.seconds();
      const TimeSpan inside{
          .begin = std::max(span.begin, duration_.begin), .end = std::min(span.end, duration_.end)};
      return sum += std::max(0.0, inside.seconds());
    };
    if (is_ours()) {
      for (const TimeSpan& span : all_spans()) add(span);
    } else {
      for (const MeasuredRequest& request : requests_) add(request.figures.span);
    }
    return sum;
  }

  void add_throughput_intervals() {
    const BlockBootstrap bootstrap(bootstrap_options());
    if (!bootstrap.is_possible()) return;
    std::vector<double> completions(bootstrap.num_blocks());
    std::vector<double> tokens(bootstrap.num_blocks());
    const double length = duration_.seconds() / static_cast<double>(bootstrap.num_blocks());
    const auto block_of = [&](Nanos at) {
      const double since = std::chrono::duration<double>(at - duration_.begin).count();
      const double last = static_cast<double>(bootstrap.num_blocks() - 1);
      return static_cast<size_t>(std::clamp(std::floor(since / length), 0.0, last));
    };
    for (const MeasuredRequest& request : requests_) {
      const Nanos end = request.figures.span.end;
      if (request.is_completed() && is_counted(end)) completions[block_of(end)] += 1.0;
      if (!is_ours() && !request.is_completed()) continue;
      for (const TokenEvent& event : tokens_over_time(request)) {
        if (is_counted(event.at)) tokens[block_of(event.at)] += event.num_tokens;
      }
    }
    const auto per_second = [&](std::optional<Interval> interval) {
      if (!interval) return interval;
      interval->low /= duration_.seconds();
      interval->high /= duration_.seconds();
      return interval;
    };
    summary_.request_throughput_interval = per_second(bootstrap.sum_interval(completions));
    summary_.output_throughput_interval = per_second(bootstrap.sum_interval(tokens));
  }

  void add_goodput() {
    const Goals& goals = record_.plan.goals;
    if (!goals.any()) return;
    int64_t num_good = 0;
    for (const MeasuredRequest& request : requests_) {
      if (!request.is_completed() || !is_counted(request.figures.span.end)) continue;
      if (is_good(request.figures, goals)) ++num_good;
    }
    summary_.request_goodput = static_cast<double>(num_good) / *summary_.duration_s;
  }

  // Open loop, our goals are those of someone who came when the schedule says.
  bool is_good(const RequestFigures& figures, const Goals& goals) const {
    const bool is_open = is_ours() && record_.plan.load.is_open_loop();
    const auto meets = [](const std::optional<Measured>& time, std::optional<double> goal) {
      return !goal || !time || time->ms <= *goal;
    };
    double gaps = 0.0;
    double num_gaps = 0.0;
    for (const Gap& gap : figures.itl) {
      gaps += gap.ms * gap.weight;
      num_gaps += gap.weight;
    }
    const bool has_good_itl = !goals.itl_ms || num_gaps == 0.0 || gaps / num_gaps <= *goals.itl_ms;
    const auto& e2e = is_open ? figures.e2e_scheduled : figures.e2e;
    const auto& ttft = is_open ? figures.ttft_scheduled : figures.ttft;
    return meets(ttft ? ttft : e2e, goals.ttft_ms) && meets(e2e, goals.e2e_ms) &&
           meets(figures.tpot, goals.tpot_ms) && has_good_itl;
  }

  void add_timeline() {
    std::vector<TimeSpan> spans;
    std::vector<TokenEvent> tokens;
    double num_chunks = 0.0;
    double num_chunk_tokens = 0.0;
    for (const MeasuredRequest& request : requests_) {
      spans.push_back(request.figures.span);
      tokens.insert(tokens.end(), request.figures.tokens.begin(), request.figures.tokens.end());
      const std::vector<Chunk> chunks = content_chunks(*request.record, request.figures.first);
      num_chunks += static_cast<double>(chunks.size());
      for (const TokenEvent& event : token_events(*request.record, chunks)) {
        num_chunk_tokens += event.num_tokens;
      }
    }
    if (num_chunks > 0.0) summary_.tokens_per_chunk = num_chunk_tokens / num_chunks;
    if (is_ours()) spans = all_spans();
    if (spans.empty()) return;
    summary_.peak_concurrency = options_.formulas == Formulas::kSglang
                                    ? peak_concurrency_by_second(spans)
                                    : peak_concurrency(spans);
    if (tokens.empty()) return;
    Nanos origin = record_.first_dispatch;
    if (!is_ours()) {
      origin = requests_.front().figures.span.begin;
    }
    summary_.peak_output_throughput = best_second(tokens, origin);
  }

  void add_server() {
    if (summary_.num_cached_tokens && *summary_.num_input_tokens > 0) {
      summary_.prefix_hit_rate = static_cast<double>(*summary_.num_cached_tokens) /
                                 static_cast<double>(*summary_.num_input_tokens);
      return;
    }
    if (record_.server.size() < 2) return;
    const ServerSample& first = record_.server.front();
    const ServerSample& last = record_.server.back();
    if (!first.prefix_queries || !last.prefix_queries || !first.prefix_hits || !last.prefix_hits) {
      return;
    }
    const double queries = *last.prefix_queries - *first.prefix_queries;
    // A server that started over counts from 0 again.
    const double hits = *last.prefix_hits - *first.prefix_hits;
    if (queries > 0.0 && hits >= 0.0) summary_.prefix_hit_rate = std::min(1.0, hits / queries);
  }

  // More tell nothing more, and each costs.
  static constexpr int32_t kResamplesMax = 100'000;

  const PointRecord& record_;
  const SummaryOptions& options_;
  TimeSpan duration_;  // of the point, or its steady window
  std::vector<MeasuredRequest> requests_;
  std::array<std::vector<Sample>, kNumMetrics> samples_;
  std::optional<GridTotals> grid_;
  PointSummary summary_;
};

}  // namespace

PointSummary summarize(const PointRecord& record, const SummaryOptions& options) {
  PointSummary summary = Summarizer(record, options).run();
  // What is judged is what happened, whatever formulas the row is printed with.
  if (options.formulas == Formulas::kMillrace && !options.steady_only) {
    summary.verdict = judge(record, summary);
    return summary;
  }
  const SummaryOptions plain{.formulas = Formulas::kMillrace, .num_resamples = 0};
  summary.verdict = judge(record, Summarizer(record, plain).run());
  return summary;
}

}  // namespace millrace::bench
