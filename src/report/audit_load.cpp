// Rules of the load: whether what was asked of the server is what it got.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/audit_rules.h"
#include "report/figures.h"

namespace millrace::bench {
namespace {

// Rounding of doubles in files that print all digits.
constexpr double kTiny = 1e-9;

double seconds(double milliseconds) {
  return milliseconds * 1e-3;
}

bool is_open_loop(const LoadPlan& load) {
  return (load.kind == LoadKind::kConstant || load.kind == LoadKind::kGamma) &&
         std::isfinite(load.request_rate) && load.request_rate > 0.0;
}

// The least share of a closed loop's places that is busy, if a request follows whenever one ends:
// at the end of the run places fall idle, each for at most the longest latency (Graham's bound for
// list scheduling), and between two requests the client itself takes a few milliseconds. Ten
// requests for each place is the fewest that people run.
double least_busy_share(const PointSummary& row, double num_places) {
  // The grid counts each place's own time only, without its first and last request.
  if (row.formulas == Formulas::kGrid) return 0.97;
  constexpr double kWavesMin = 10.0;
  double waves = kWavesMin;
  if (row.plan.num_prompts > 0) {
    waves = static_cast<double>(row.plan.num_prompts) / num_places;
  } else if (row.num_completed) {
    waves = static_cast<double>(*row.num_completed) / num_places;
  }
  const double mean = *mean_of(row, Metric::kE2e);
  double longest = max_of(row, Metric::kE2e).value_or(0.0);
  longest = std::max(longest, percentile_of(row, Metric::kE2e, 99.0).value_or(0.0));
  // Not said: a request that takes three times the mean is nothing unusual.
  if (longest < mean) longest = 3.0 * mean;
  const double idle = (1.0 - 1.0 / num_places) * longest / (mean * std::max(waves, 1e-6));
  constexpr double kClientGapMs = 5.0;
  return 0.99 / (1.0 + idle + kClientGapMs / mean);
}

void check_littles_law(PointSummary& row, const Precision& precision) {
  const LoadPlan& load = row.plan.load;
  const std::optional<double> e2e = mean_of(row, Metric::kE2e);
  const std::optional<Range> rate = request_rate_range(row, precision);
  if (!e2e || !rate) return;
  const Range latency = around(seconds(*e2e), seconds(precision.e2e_ms));
  const Range in_flight = {rate->low * latency.low, rate->high * latency.high};
  if (load.max_concurrency && *load.max_concurrency > 0) {
    const double places = static_cast<double>(*load.max_concurrency);
    const bool is_closed = load.kind == LoadKind::kConcurrency;
    const bool is_above = in_flight.low > 1.01 * places;
    if (is_above || (is_closed && in_flight.high < least_busy_share(row, places) * places)) {
      add_finding(
          row,
          Trust::kInvalid,
          "littles_law",
          fmt::format(
              "rate times latency is {:.2f} requests in flight, where the load keeps {}: {}",
              in_flight.middle(),
              *load.max_concurrency,
              is_above ? "no more can be in flight" : "the places were idle for much of the run"
          )
      );
    }
  }
  // SGLang and guidellm say it themselves.
  if (row.concurrency && row.formulas == Formulas::kSglang) {
    const double said = *row.concurrency;
    if (in_flight.low > 1.01 * said || in_flight.high < 0.99 * said) {
      add_finding(
          row,
          Trust::kInvalid,
          "littles_law",
          fmt::format(
              "rate times latency is {:.2f} requests in flight, the row says {:.2f}",
              in_flight.middle(),
              said
          )
      );
    }
  }
}

void check_quotient(
    PointSummary& row,
    std::string_view what,
    std::optional<double> said,
    std::optional<double> computed
) {
  if (!said || !computed || !std::isfinite(*computed)) return;
  if (std::abs(*said - *computed) <= 1e-3 * std::max(*said, *computed) + kTiny) return;
  add_finding(
      row,
      Trust::kInvalid,
      "contradiction",
      fmt::format("{} is {:.4f}, its parts give {:.4f}", what, *said, *computed)
  );
}

// Throughputs are totals by the duration, where both are said.
void check_throughputs(PointSummary& row, const Precision& precision) {
  const DatasetPlan& dataset = row.plan.dataset;
  if (row.formulas == Formulas::kGrid && row.total_throughput && row.request_throughput &&
      dataset.input_len && dataset.output_len) {
    const double tokens =
        static_cast<double>(*dataset.input_len) + static_cast<double>(*dataset.output_len);
    const double rate = *row.total_throughput / tokens;
    if (std::abs(rate - *row.request_throughput) > precision.rate * (1.0 + 1.0 / tokens) + kTiny) {
      add_finding(
          row,
          Trust::kInvalid,
          "contradiction",
          fmt::format(
              "TPS / (I + O) is {:.3f} requests per second, RPS says {:.2f}",
              rate,
              *row.request_throughput
          )
      );
    }
  }
  // guidellm's rates are means over time, not totals by the duration.
  if (row.formulas != Formulas::kVllm && row.formulas != Formulas::kSglang) return;
  if (!row.duration_s || *row.duration_s <= 0.0) return;
  const auto per_second = [&](std::optional<int64_t> count) -> std::optional<double> {
    if (!count) return std::nullopt;
    return static_cast<double>(*count) / *row.duration_s;
  };
  check_quotient(row, "request_throughput", row.request_throughput, per_second(row.num_completed));
  check_quotient(
      row, "output_throughput", row.output_throughput, per_second(row.num_output_tokens)
  );
  if (!row.num_input_tokens || !row.num_output_tokens) return;
  check_quotient(
      row,
      "total throughput",
      row.total_throughput,
      per_second(*row.num_input_tokens + *row.num_output_tokens)
  );
}

// A process may mostly have so many files open by default; a few of them are not connections.
std::string open_files_remark(int64_t num_completed) {
  for (const int64_t limit : {256, 1024, 4096}) {
    if (num_completed < limit && num_completed >= limit - 32) {
      return fmt::format(
          "; {} is just below {}, a usual limit of open files: the client ran out of them, it "
          "seems",
          num_completed,
          limit
      );
    }
  }
  return "";
}

void check_completed(PointSummary& row) {
  const int64_t asked = row.plan.num_prompts;
  if (asked > 0 && row.num_completed && *row.num_completed < asked) {
    const double share = static_cast<double>(*row.num_completed) / static_cast<double>(asked);
    add_finding(
        row,
        share < 0.99 ? Trust::kInvalid : Trust::kWarn,
        "incomplete",
        fmt::format(
            "{} of {} requests were completed ({:.1f} %){}",
            *row.num_completed,
            asked,
            100.0 * share,
            open_files_remark(*row.num_completed)
        )
    );
  } else if (row.num_failed && *row.num_failed > 0) {
    add_finding(row, Trust::kWarn, "failures", fmt::format("{} requests failed", *row.num_failed));
  }
}

// How long the last request may have run after it arrived, in seconds.
double longest_latency_s(const PointSummary& row) {
  const auto worst = [&](Metric metric) {
    const double p99 = percentile_of(row, metric, 99.0).value_or(0.0);
    return std::max({p99, max_of(row, metric).value_or(0.0), mean_of(row, metric).value_or(0.0)});
  };
  double latency_ms = worst(Metric::kE2e);
  if (latency_ms == 0.0) {
    double tokens = 1.0;
    if (row.num_output_tokens && row.num_completed && *row.num_completed > 0) {
      tokens =
          static_cast<double>(*row.num_output_tokens) / static_cast<double>(*row.num_completed);
    }
    latency_ms = worst(Metric::kTtft) + tokens * worst(Metric::kTpot);
  }
  return seconds(latency_ms);
}

// N requests at R per second arrive within N / R seconds. They all had arrived by the end of the
// run, and the last of them no earlier than the longest latency before it.
void check_realised_rate(PointSummary& row) {
  if (!is_open_loop(row.plan.load) || !row.duration_s || row.plan.num_prompts <= 0) return;
  const double asked = row.plan.load.request_rate;
  const double num = static_cast<double>(row.plan.num_prompts);
  const double slowest = num / *row.duration_s;
  const double arrivals_s = *row.duration_s - longest_latency_s(row);
  const double fastest = arrivals_s > 0.0 ? num / arrivals_s : 1e300;
  double realised = asked;
  if (slowest > 1.01 * asked) realised = slowest;
  if (fastest < 0.99 * asked) realised = fastest;
  if (realised == asked) return;
  const double off = realised / asked - 1.0;
  add_finding(
      row,
      std::abs(off) > 0.1 ? Trust::kInvalid : Trust::kWarn,
      "rate",
      fmt::format(
          "asked for {} requests per second, {} {:.2f} were sent ({:+.1f} %): {} requests took "
          "{:.1f} s",
          asked,
          off > 0.0 ? "at least" : "at most",
          realised,
          100.0 * off,
          row.plan.num_prompts,
          *row.duration_s
      )
  );
}

// Less completed than asked for means that a queue grew for as long as the run lasted, or that the
// run was no longer than some latencies: both make its figures those of its length.
void check_overload(PointSummary& row, const Precision& precision) {
  if (!is_open_loop(row.plan.load)) return;
  const std::optional<Range> rate = request_rate_range(row, precision);
  const double asked = row.plan.load.request_rate;
  if (!rate || rate->high >= 0.9 * asked) return;
  add_finding(
      row,
      Trust::kWarn,
      "overloaded",
      fmt::format(
          "{:.2f} of {} requests per second were completed ({:.0f} %): the queue grew, or the run "
          "was short for its latencies; they depend on how long it lasted",
          rate->middle(),
          asked,
          100.0 * rate->middle() / asked
      )
  );
}

}  // namespace

void audit_load(PointSummary& row, const Precision& precision) {
  check_littles_law(row, precision);
  check_throughputs(row, precision);
  check_completed(row);
  check_realised_rate(row);
  check_overload(row, precision);
}

}  // namespace millrace::bench
