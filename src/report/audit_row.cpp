#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/audit_rules.h"
#include "report/figures.h"

namespace millrace::bench {
namespace {

// Rounding of doubles in files that print all digits.
constexpr double kTiny = 1e-9;

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

// A cell of the grid names lengths that can be measured.
void check_grid_lengths(PointSummary& row) {
  if (row.formulas != Formulas::kGrid) return;
  const DatasetPlan& dataset = row.plan.dataset;
  const int64_t input = dataset.input_len.value_or(1), hit = dataset.hit_len.value_or(0);
  const bool is_empty = row.plan.load.max_concurrency == 0 || input == 0 || dataset.output_len == 0;
  if (!is_empty && hit <= input) return;
  add_finding(
      row,
      Trust::kInvalid,
      "absurd",
      fmt::format(
          "{}: a batch, a prompt or an answer of 0, or more hits than the prompt has tokens",
          row.plan.name
      )
  );
}

}  // namespace

void audit_row(PointSummary& row, const Precision& precision) {
  if (!has_figures(row)) return;
  check_grid_lengths(row);
  check_distributions(row, precision);
  check_output_len(row, precision);
  check_input_len(row);
  check_latency_parts(row, precision);
  audit_load(row, precision);
  check_sample_size(row);
}

}  // namespace millrace::bench
