// Rules over the rows of one table: what a row's neighbours say of it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "report/audit_rules.h"
#include "report/figures.h"

namespace millrace::bench {
namespace {

using Rows = std::span<ImportedRow* const>;

bool has_code(const PointSummary& row, std::string_view code) {
  const std::vector<Finding>& findings = row.verdict.findings;
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.code == code;
  });
}

bool is_empty(const PointSummary& row) {
  return has_code(row, "no_requests") || has_code(row, "failed") || !row.request_throughput;
}

// Finite where the load is a rate.
std::optional<double> asked_rate(const PointSummary& row) {
  const LoadPlan& load = row.plan.load;
  const bool is_rate = load.kind == LoadKind::kConstant || load.kind == LoadKind::kGamma;
  if (!is_rate || !std::isfinite(load.request_rate)) return std::nullopt;
  return load.request_rate;
}

// More completed than sent. A point of N requests completes them no faster than they were sent, but
// for one gap at its ends; the rest belongs to a point before it.
void check_surplus(Rows rows, const Precision& precision) {
  for (ImportedRow* imported : rows) {
    PointSummary& row = imported->summary;
    const std::optional<double> asked = asked_rate(row);
    if (!asked || is_empty(row)) continue;
    // Names round the rate as the cells do.
    const Range share =
        ratio(around(*row.request_throughput, precision.rate), around(*asked, precision.rate));
    if (share.low <= 1.01) continue;
    // Random arrivals: so many came by chance. What is known of them is the rate rule's.
    if (row.plan.load.kind == LoadKind::kGamma) continue;
    add_finding(
        row,
        share.low > 1.05 ? Trust::kInvalid : Trust::kWarn,
        "surplus",
        fmt::format(
            "{:.2f} requests per second were completed, but only {:.2f} sent: those of an earlier "
            "point are among them",
            *row.request_throughput,
            *asked
        )
    );
  }
}

// What makes two rows the same but for their load.
auto series_of(const PointSummary& row) {
  const DatasetPlan& dataset = row.plan.dataset;
  return std::tuple(
      row.plan.framework,
      row.plan.version,
      row.plan.model,
      row.plan.device,
      dataset.input_len,
      dataset.hit_len,
      dataset.output_len
  );
}

// How much load; none: as much as there can be, which is not comparable.
std::optional<double> load_of(const PointSummary& row) {
  if (const std::optional<double> rate = asked_rate(row)) return rate;
  const LoadPlan& load = row.plan.load;
  // One at a time has no rate that it could be compared by.
  if (load.kind != LoadKind::kConcurrency || row.plan.name == "synchronous") return std::nullopt;
  if (!load.max_concurrency) return std::nullopt;
  return static_cast<double>(*load.max_concurrency);
}

// More load does not make a server answer sooner. A row that is half again as slow as one of the
// same server under more load had something else to do.
void check_disturbance(Rows rows) {
  for (ImportedRow* imported : rows) {
    PointSummary& row = imported->summary;
    const std::optional<double> load = load_of(row);
    const std::optional<double> e2e = mean_of(row, Metric::kE2e);
    if (!load || !e2e || is_empty(row)) continue;
    const PointSummary* fastest = nullptr;
    for (const ImportedRow* candidate : rows) {
      const PointSummary& other = candidate->summary;
      const std::optional<double> more = load_of(other);
      if (!more || *more <= *load || is_empty(other)) continue;
      if (series_of(other) != series_of(row) || other.plan.load.kind != row.plan.load.kind)
        continue;
      const std::optional<double> other_e2e = mean_of(other, Metric::kE2e);
      if (!other_e2e || *other_e2e <= 0.0) continue;
      if (fastest == nullptr || *other_e2e < *mean_of(*fastest, Metric::kE2e)) fastest = &other;
    }
    if (fastest == nullptr) continue;
    const double times = *e2e / *mean_of(*fastest, Metric::kE2e);
    if (times <= 1.5) continue;
    add_finding(
        row,
        times > 2.0 ? Trust::kInvalid : Trust::kWarn,
        "disturbed",
        fmt::format(
            "mean E2E {:.2f} s is {:.1f} times that of '{}', which has more load: {}",
            *e2e * 1e-3,
            times,
            fastest->plan.name,
            asked_rate(row) ? "the server still worked for an earlier point, or was disturbed"
                            : "a cold start is in it, or the server was disturbed"
        )
    );
  }
}

// A sweep: one request at a time, all at once, and rates between the two.
struct Sweep {
  const PointSummary* synchronous = nullptr;
  const PointSummary* throughput = nullptr;
  std::vector<PointSummary*> rates;  // as printed
};

std::optional<Sweep> find_sweep(Rows rows) {
  Sweep sweep;
  for (ImportedRow* imported : rows) {
    PointSummary& row = imported->summary;
    if (row.plan.name == "synchronous" && !is_empty(row)) sweep.synchronous = &row;
    if (row.plan.name == "throughput" && !is_empty(row)) sweep.throughput = &row;
    if (asked_rate(row)) sweep.rates.push_back(&row);
  }
  if (sweep.synchronous == nullptr || sweep.throughput == nullptr || sweep.rates.size() < 2) {
    return std::nullopt;
  }
  return sweep;
}

// The rates of a sweep are equal steps from the synchronous rate to the throughput's: guidellm's
// linspace(sync, throughput, n)[1:].
void check_spacing(const Sweep& sweep, const Precision& precision) {
  const double from = *sweep.synchronous->request_throughput;
  const double to = *sweep.throughput->request_throughput;
  const size_t num_steps = sweep.rates.size();
  // The ends are rounded as well as the rate. Where all digits are there, rates are still those of
  // the tool's own clock.
  const double tolerance = 2.0 * precision.rate + 1e-3 * to;
  std::vector<PointSummary*> rates = sweep.rates;
  std::stable_sort(rates.begin(), rates.end(), [](const PointSummary* a, const PointSummary* b) {
    return *asked_rate(*a) < *asked_rate(*b);
  });
  for (size_t i = 0; i < num_steps; ++i) {
    const double step =
        from + (to - from) * static_cast<double>(i + 1) / static_cast<double>(num_steps);
    const double asked = *asked_rate(*rates[i]);
    if (std::abs(asked - step) <= tolerance) continue;
    add_finding(
        *rates[i],
        Trust::kInvalid,
        "spacing",
        fmt::format(
            "asked for {:.2f} requests per second, where step {} of {} from {:.2f} to {:.2f} is "
            "{:.2f}: the row is mistyped or of another run",
            asked,
            i + 1,
            num_steps,
            from,
            to,
            step
        )
    );
  }
}

// The table is sorted by what was completed.
void check_sorting(Rows rows) {
  const PointSummary* before = nullptr;
  for (ImportedRow* imported : rows) {
    PointSummary& row = imported->summary;
    // Empty rows are found for what they are.
    if (is_empty(row)) continue;
    if (before != nullptr && *row.request_throughput < *before->request_throughput) {
      add_finding(
          row,
          Trust::kWarn,
          "unsorted",
          fmt::format(
              "{:.2f} requests per second stand below {:.2f}, where rows are sorted by what was "
              "completed",
              *row.request_throughput,
              *before->request_throughput
          )
      );
    }
    before = &row;
  }
}

// How much a row is to be believed where two rows cannot both be right: the closer to what it was
// asked for, the more, and not at all with requests of another point in it.
int64_t credit(const PointSummary& row) {
  constexpr int64_t kRow = 10'000;  // one more row outweighs any closeness
  if (has_code(row, "surplus")) return kRow;
  const double share = std::min(*row.request_throughput / *asked_rate(row), 1.0);
  return kRow + static_cast<int64_t>(100.0 * share);
}

// Of rows by what they completed: which of them are in the most credible run of ascending rates.
std::vector<bool> ascending_run(std::span<PointSummary* const> rows) {
  std::vector<int64_t> best(rows.size());
  std::vector<size_t> previous(rows.size());
  size_t last = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    best[i] = credit(*rows[i]);
    previous[i] = i;
    for (size_t j = 0; j < i; ++j) {
      if (*asked_rate(*rows[j]) >= *asked_rate(*rows[i])) continue;
      if (best[j] + credit(*rows[i]) <= best[i]) continue;
      best[i] = best[j] + credit(*rows[i]);
      previous[i] = j;
    }
    if (best[i] > best[last]) last = i;
  }
  std::vector<bool> is_in_run(rows.size(), false);
  for (size_t i = last; !rows.empty(); i = previous[i]) {
    is_in_run[i] = true;
    if (previous[i] == i) break;
  }
  return is_in_run;
}

// Less than nine tenths of what a row that was asked for less completed is no noise.
bool is_far_below(const PointSummary& row, std::span<PointSummary* const> rows) {
  return std::any_of(rows.begin(), rows.end(), [&](const PointSummary* other) {
    return *asked_rate(*other) < *asked_rate(row) &&
           *row.request_throughput < 0.9 * *other->request_throughput;
  });
}

// More asked, more completed, or as much at the server's limit. Rows outside of the longest
// ascending run of rates broke that.
void check_order(const Sweep& sweep) {
  std::vector<PointSummary*> rows;
  for (PointSummary* row : sweep.rates) {
    if (!is_empty(*row)) rows.push_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const PointSummary* a, const PointSummary* b) {
    return *a->request_throughput < *b->request_throughput;
  });
  const std::vector<bool> is_in_run = ascending_run(rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (is_in_run[i]) continue;
    const bool is_invalid = has_code(*rows[i], "surplus") || is_far_below(*rows[i], rows);
    add_finding(
        *rows[i],
        is_invalid ? Trust::kInvalid : Trust::kWarn,
        "order",
        fmt::format(
            "asked for {:.2f} requests per second it completed {:.2f}, out of order with the other "
            "rates of the table",
            *asked_rate(*rows[i]),
            *rows[i]->request_throughput
        )
    );
  }
}

}  // namespace

void audit_table(Rows rows, const Precision& precision) {
  check_surplus(rows, precision);
  check_disturbance(rows);
  if (const std::optional<Sweep> sweep = find_sweep(rows)) {
    check_spacing(*sweep, precision);
    check_sorting(rows);
    check_order(*sweep);
  }
}

}  // namespace millrace::bench
