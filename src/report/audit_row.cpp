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

bool has_fixed_output(const PointSummary& row) {
  const DatasetPlan& dataset = row.plan.dataset;
  // A ratio of 1 is a fixed length for SGLang, as 0 is for vLLM.
  const double fixed_ratio = dataset.range_ratio_mode == "sglang" ? 1.0 : 0.0;
  return dataset.output_len && *dataset.output_len > 0 && dataset.range_ratio == fixed_ratio;
}

// Every figure there is.
std::vector<double> all_figures(const PointSummary& row) {
  std::vector<double> figures;
  for (const auto& figure :
       {row.duration_s,
        row.request_throughput,
        row.input_throughput,
        row.output_throughput,
        row.total_throughput,
        row.request_goodput,
        row.concurrency,
        row.peak_output_throughput}) {
    if (figure) figures.push_back(*figure);
  }
  for (const auto& count : {row.num_input_tokens, row.num_output_tokens}) {
    if (count) figures.push_back(static_cast<double>(*count));
  }
  for (const std::optional<Distribution>& samples : row.metrics) {
    if (!samples) continue;
    figures.push_back(samples->mean);
    figures.push_back(samples->std);
    for (const Percentile& percentile : samples->percentiles) figures.push_back(percentile.value);
  }
  return figures;
}

// Whether there is something to look at; if not, says why.
bool has_figures(PointSummary& row) {
  const std::vector<double> figures = all_figures(row);
  if (figures.empty()) {
    if (row.num_completed == 0) {
      add_finding(row, Trust::kInvalid, "failed", "the run failed: there are no figures");
    }
    return false;
  }
  for (const double figure : figures) {
    if (std::isfinite(figure) && figure >= 0.0) continue;
    add_finding(
        row, Trust::kInvalid, "absurd", fmt::format("{} is no time, count or rate", figure)
    );
    return false;
  }
  const bool is_all_zero =
      std::all_of(figures.begin(), figures.end(), [](double figure) { return figure == 0.0; });
  if (is_all_zero || row.num_completed == 0 || row.request_throughput == 0.0) {
    add_finding(
        row,
        Trust::kInvalid,
        "no_requests",
        "nothing was completed: zeros stand where there is no figure"
    );
    return false;
  }
  return true;
}

// Of one metric: what no sample can give.
void check_distribution(PointSummary& row, Metric metric) {
  const Distribution& samples = *row[metric];
  for (size_t i = 1; i < samples.percentiles.size(); ++i) {
    const Percentile& below = samples.percentiles[i - 1];
    const Percentile& above = samples.percentiles[i];
    if (above.value >= below.value * (1.0 - kTiny)) continue;
    add_finding(
        row,
        Trust::kInvalid,
        "contradiction",
        fmt::format(
            "{}: p{} is {:.2f} and p{} is {:.2f}",
            to_string(metric),
            rank_word(below.rank),
            below.value,
            rank_word(above.rank),
            above.value
        )
    );
    return;
  }
  // Possible, but only if less than one sample in a hundred outweighs all others.
  const std::optional<double> p99 = samples.percentile(99.0);
  if (p99 && *p99 < samples.mean * (1.0 - kTiny)) {
    add_finding(
        row,
        Trust::kWarn,
        "outliers",
        fmt::format(
            "{}: the mean {:.2f} is above p99 {:.2f}: a few samples outweigh all others",
            to_string(metric),
            samples.mean,
            *p99
        )
    );
  }
}

void check_distributions(PointSummary& row, const Precision& precision) {
  for (size_t i = 0; i < kNumMetrics; ++i) {
    if (row.metrics[i]) check_distribution(row, static_cast<Metric>(i));
  }
  const std::optional<double> ttft = mean_of(row, Metric::kTtft);
  const std::optional<double> e2e = mean_of(row, Metric::kE2e);
  if (ttft && e2e && *ttft - precision.ttft_ms > *e2e + precision.e2e_ms) {
    add_finding(
        row,
        Trust::kInvalid,
        "contradiction",
        fmt::format("mean TTFT {:.2f} ms is above mean E2E {:.2f} ms", *ttft, *e2e)
    );
  }
}

// Tokens that are missing make every other figure better than it is: at a fixed length nothing
// below 99 % passes. Where the server was free to stop early, fewer tokens are a remark until they
// are fewer than nine in ten.
void check_output_len(PointSummary& row, const Precision& precision) {
  if (!has_fixed_output(row)) return;
  const std::optional<Range> implied = implied_output_len(row, precision);
  if (!implied) return;
  const double asked = static_cast<double>(*row.plan.dataset.output_len);
  if (implied->high < 0.99 * asked) {
    const bool is_invalid = row.plan.dataset.ignores_eos || implied->high < 0.9 * asked;
    add_finding(
        row,
        is_invalid ? Trust::kInvalid : Trust::kWarn,
        "output_length",
        fmt::format(
            "{:.0f} output tokens a request, {:.1f} % of the {} that were asked for",
            implied->middle(),
            100.0 * implied->middle() / asked,
            *row.plan.dataset.output_len
        )
    );
  } else if (implied->low > 1.02 * asked) {
    add_finding(
        row,
        Trust::kWarn,
        "output_length",
        fmt::format(
            "{:.0f} output tokens a request, more than the {} that were asked for",
            implied->middle(),
            *row.plan.dataset.output_len
        )
    );
  }
}

void check_input_len(PointSummary& row) {
  const DatasetPlan& dataset = row.plan.dataset;
  if (!dataset.input_len || *dataset.input_len <= 0 || dataset.range_ratio_mode == "sglang") return;
  std::optional<double> length = mean_of(row, Metric::kInputLen);
  if (!length && row.num_input_tokens && row.num_completed && *row.num_completed > 0) {
    length = static_cast<double>(*row.num_input_tokens) / static_cast<double>(*row.num_completed);
  }
  const double asked = static_cast<double>(*dataset.input_len);
  if (!length || std::abs(*length - asked) <= 0.01 * asked + 1.0) return;
  add_finding(
      row,
      Trust::kWarn,
      "input_length",
      fmt::format(
          "{:.1f} prompt tokens a request, where {} were asked for", *length, *dataset.input_len
      )
  );
}

// A latency is its first token and the gaps after it. A client that measures gaps between chunks
// has one more of them than tokens (the last chunk is empty), or fewer where a chunk brings several
// tokens; 3 % allows for the former.
void check_latency_parts(PointSummary& row, const Precision& precision) {
  const std::optional<double> ttft = mean_of(row, Metric::kTtft);
  const std::optional<double> e2e = mean_of(row, Metric::kE2e);
  // guidellm's TPOT has the TTFT in it, so its gaps are what is added up.
  const bool has_itl = row.formulas == Formulas::kGuidellm || row.formulas == Formulas::kGuidellm01;
  const std::optional<double> gap = mean_of(row, has_itl ? Metric::kItl : Metric::kTpot);
  const std::optional<Range> rate = request_rate_range(row, precision);
  if (!ttft || !e2e || !gap || *gap <= 2.0 * precision.itl_ms || !rate) return;
  if (!row.output_throughput || *e2e <= *ttft) return;
  const Range tokens = ratio(around(*row.output_throughput, precision.rate), *rate);
  const Range after_first = around(*e2e - *ttft, precision.e2e_ms + precision.ttft_ms);
  const Range gaps = ratio(after_first, around(*gap, precision.itl_ms));
  const Range parts = {gaps.low + 1.0, gaps.high + 1.0};
  // Means over requests of unlike lengths need not multiply: TPOT is a mean of ratios.
  const double warn_share = has_itl ? 0.03 : 0.10;
  const Range share = ratio(parts, tokens);
  if (share.low <= 1.0 + warn_share && share.high >= 1.0 - warn_share) return;
  const bool is_invalid = share.low > 1.10 || share.high < 0.90;
  add_finding(
      row,
      is_invalid ? Trust::kInvalid : Trust::kWarn,
      "contradiction",
      fmt::format(
          "(E2E - TTFT) / {} + 1 gives {:.0f} tokens a request, the throughputs give {:.0f}: these "
          "figures are not of one run, or their tokens are not counted alike",
          has_itl ? "ITL" : "TPOT",
          parts.middle(),
          tokens.middle()
      )
  );
}

// The least share of a closed loop's places that is busy, if a request follows whenever one ends:
// at the end of the run places fall idle, each for at most the longest latency (Graham's bound for
// list scheduling). Ten requests for each place is the fewest that people run.
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
  return 0.99 / (1.0 + idle);
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
    const double tokens = static_cast<double>(*dataset.input_len + *dataset.output_len);
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

// Less completed than asked for means that a queue grew for as long as the run lasted, so that its
// latencies say how long that was.
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
          "{:.2f} of {} requests per second were completed ({:.0f} %): the queue grew, and "
          "latencies depend on how long the run lasted",
          rate->middle(),
          asked,
          100.0 * rate->middle() / asked
      )
  );
}

void check_sample_size(PointSummary& row) {
  // Of fewer, p99 is one of the three largest.
  constexpr int64_t kSamplesMin = 300;
  if (!row.num_completed || *row.num_completed >= kSamplesMin) return;
  const Metric kOnePerRequest[] = {Metric::kTtft, Metric::kTpot, Metric::kE2e};
  const bool has_p99 =
      std::any_of(std::begin(kOnePerRequest), std::end(kOnePerRequest), [&](Metric metric) {
        return percentile_of(row, metric, 99.0).has_value();
      });
  if (!has_p99) return;
  add_finding(
      row, Trust::kWarn, "few_samples", fmt::format("p99 of {} requests", *row.num_completed)
  );
}

}  // namespace

Precision precision_of(ResultFormat format) {
  switch (format) {
    case ResultFormat::kGridMarkdown:
      return {.rate = 0.005, .ttft_ms = 0.5, .itl_ms = 0.0, .e2e_ms = 0.5};
    case ResultFormat::kGuidellmMarkdown:
      return {.rate = 0.005, .ttft_ms = 0.005, .itl_ms = 0.005, .e2e_ms = 5.0};
    case ResultFormat::kConcurrencyMarkdown:
      return {.rate = 0.005, .ttft_ms = 0.005, .itl_ms = 0.005, .e2e_ms = 0.005};
    case ResultFormat::kMillrace:
    case ResultFormat::kVllmJson:
    case ResultFormat::kSglangJsonl:
    case ResultFormat::kGuidellmJson:
      return {};
  }
  CHECK(false, "a format without a precision");
}

Range around(double value, double half_width) {
  return {std::max(value - half_width, 0.0), value + half_width};
}

Range ratio(Range a, Range b) {
  constexpr double kHuge = 1e300;
  return {b.high > 0.0 ? a.low / b.high : 0.0, b.low > 0.0 ? a.high / b.low : kHuge};
}

void add_finding(PointSummary& row, Trust trust, std::string_view code, std::string message) {
  row.verdict.findings.push_back({.trust = trust, .code = code, .message = std::move(message)});
}

std::optional<Range> request_rate_range(const PointSummary& row, const Precision& precision) {
  if (!row.request_throughput || *row.request_throughput <= 0.0) return std::nullopt;
  const DatasetPlan& dataset = row.plan.dataset;
  if (row.formulas == Formulas::kGrid && row.total_throughput && dataset.input_len &&
      dataset.output_len && *dataset.input_len + *dataset.output_len > 0) {
    // Prompt and output are of exact lengths, so that tokens per second have the more digits.
    const double tokens = static_cast<double>(*dataset.input_len + *dataset.output_len);
    return around(*row.total_throughput / tokens, precision.rate / tokens);
  }
  return around(*row.request_throughput, precision.rate);
}

std::optional<Range> implied_output_len(const PointSummary& row, const Precision& precision) {
  if (row.num_output_tokens && row.num_completed && *row.num_completed > 0) {
    const double length =
        static_cast<double>(*row.num_output_tokens) / static_cast<double>(*row.num_completed);
    return Range{length, length};
  }
  if (const std::optional<double> length = mean_of(row, Metric::kOutputLen)) {
    return Range{*length, *length};
  }
  std::optional<Range> best;
  const std::optional<Range> rate = request_rate_range(row, precision);
  if (rate && row.output_throughput) {
    best = ratio(around(*row.output_throughput, precision.rate), *rate);
  }
  const std::optional<double> ttft = mean_of(row, Metric::kTtft);
  const std::optional<double> e2e = mean_of(row, Metric::kE2e);
  const std::optional<double> tpot = mean_of(row, Metric::kTpot);
  const bool has_tpot = row.formulas == Formulas::kVllm || row.formulas == Formulas::kSglang;
  if (has_tpot && ttft && e2e && tpot && *tpot > 0.0 && *e2e > *ttft) {
    const Range gaps = ratio(
        around(*e2e - *ttft, precision.e2e_ms + precision.ttft_ms), around(*tpot, precision.itl_ms)
    );
    const Range length = {gaps.low + 1.0, gaps.high + 1.0};
    if (!best || length.relative_width() < best->relative_width()) best = length;
  }
  return best;
}

void audit_row(PointSummary& row, const Precision& precision) {
  if (!has_figures(row)) return;
  check_distributions(row, precision);
  check_output_len(row, precision);
  check_input_len(row);
  check_latency_parts(row, precision);
  check_littles_law(row, precision);
  check_throughputs(row, precision);
  check_completed(row);
  check_realised_rate(row);
  check_overload(row, precision);
  check_sample_size(row);
}

}  // namespace millrace::bench
