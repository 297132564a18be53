#include "results/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace millrace::bench {
namespace {

// The value at `index` when each sample stands there as often as its weight says. `from` and
// `before` are where the search starts and what weighs before it; they move on.
double value_at(std::span<const Sample> sorted, double index, size_t& from, double& before) {
  while (from + 1 < sorted.size() && before + sorted[from].weight <= index) {
    before += sorted[from].weight;
    ++from;
  }
  return sorted[from].value;
}

double linear_percentile(std::span<const Sample> sorted, double rank) {
  const double index = (total_weight(sorted) - 1.0) * (rank / 100.0);
  const double low_index = std::floor(index);
  size_t from = 0;
  double before = 0.0;
  const double low = value_at(sorted, low_index, from, before);
  const double high = value_at(sorted, low_index + 1.0, from, before);
  const double share = index - low_index;
  // From the nearer end, as numpy does: the same bits.
  if (share >= 0.5) return high - (high - low) * (1.0 - share);
  return low + (high - low) * share;
}

double cdf_percentile(std::span<const Sample> sorted, double rank) {
  const double total = total_weight(sorted);
  double reached = 0.0;
  for (size_t i = 0; i < sorted.size();) {
    double weight = 0.0;
    size_t end = i;
    while (end < sorted.size() && sorted[end].value == sorted[i].value)
      weight += sorted[end++].weight;
    reached += weight / total;
    if (weight > 0.0 && reached >= rank / 100.0) return sorted[i].value;
    i = end;
  }
  return sorted.back().value;
}

// Lentz's evaluation of the continued fraction of I_x(a, b).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  constexpr double kEnough = 1e-15;
  constexpr int kStepsMax = 10'000;
  const auto keep_off_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1.0;
  double d = 1.0 / keep_off_zero(1.0 - (a + b) * x / (a + 1.0));
  double result = d;
  for (int m = 1; m <= kStepsMax; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m));
    d = 1.0 / keep_off_zero(1.0 + even * d);
    c = keep_off_zero(1.0 + even / c);
    result *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0));
    d = 1.0 / keep_off_zero(1.0 + odd * d);
    c = keep_off_zero(1.0 + odd / c);
    result *= d * c;
    if (std::abs(d * c - 1.0) < kEnough) break;
  }
  return result;
}

}  // namespace

void sort_samples(std::span<Sample> samples) {
  std::sort(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) {
    if (a.value != b.value) return a.value < b.value;
    if (a.is_censored != b.is_censored) return b.is_censored;
    return a.request < b.request;
  });
}

double total_weight(std::span<const Sample> samples) {
  double total = 0.0;
  for (const Sample& sample : samples) total += sample.weight;
  return total;
}

double percentile(std::span<const Sample> sorted, double rank, Quantiles quantiles) {
  CHECK(!sorted.empty(), "a percentile of nothing");
  CHECK(rank >= 0.0 && rank <= 100.0, "a rank is 0 to 100");
  return quantiles == Quantiles::kLinear ? linear_percentile(sorted, rank)
                                         : cdf_percentile(sorted, rank);
}

Moments moments(std::span<const Sample> samples) {
  const double total = total_weight(samples);
  if (total <= 0.0) return {};
  double sum = 0.0;
  for (const Sample& sample : samples) sum += sample.value * sample.weight;
  const double mean = sum / total;
  double squares = 0.0;
  for (const Sample& sample : samples) {
    squares += (sample.value - mean) * (sample.value - mean) * sample.weight;
  }
  return {.mean = mean, .std = std::sqrt(squares / total)};
}

double Survival::percentile(double rank) const {
  double reached = 0.0;
  for (const Step& step : steps) {
    reached += step.share;
    // Shares are products of many quotients: what is reached up to their rounding is reached.
    if (reached >= rank / 100.0 - 1e-12) return step.value;
  }
  return std::numeric_limits<double>::infinity();
}

Moments Survival::moments() const {
  double mean = last_seen * share_beyond;
  for (const Step& step : steps) mean += step.value * step.share;
  double squares = (last_seen - mean) * (last_seen - mean) * share_beyond;
  for (const Step& step : steps) squares += (step.value - mean) * (step.value - mean) * step.share;
  return {.mean = mean, .std = std::sqrt(squares)};
}

Survival survival(std::span<const Sample> sorted) {
  Survival result;
  double at_risk = total_weight(sorted);
  double surviving = 1.0;
  for (const Sample& sample : sorted) {
    if (sample.weight <= 0.0) continue;
    if (!sample.is_censored) {
      const double share = surviving * std::min(1.0, sample.weight / at_risk);
      result.steps.push_back({.value = sample.value, .share = share});
      surviving -= share;
    }
    at_risk -= sample.weight;
    result.last_seen = sample.value;
  }
  // What is left by rounding when the last one was observed is nothing.
  if (!sorted.empty() && surviving > 1e-9) result.share_beyond = surviving;
  return result;
}

double incomplete_beta(double a, double b, double x) {
  CHECK(a > 0.0 && b > 0.0, "the incomplete beta function of a, b > 0");
  if (x <= 0.0) return 0.0;
  if (x >= 1.0) return 1.0;
  const double log_front =
      std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x);
  // The fraction converges fast on this side only; the other is its mirror.
  if (x < (a + 1.0) / (a + b + 2.0)) return std::exp(log_front) * beta_fraction(a, b, x) / a;
  return 1.0 - std::exp(log_front) * beta_fraction(b, a, 1.0 - x) / b;
}

double student_t_two_sided(double t, double degrees) {
  CHECK(degrees > 0.0, "Student's distribution has a degree of freedom");
  if (std::isnan(t)) return 1.0;
  if (std::isinf(t)) return 0.0;
  return incomplete_beta(degrees / 2.0, 0.5, degrees / (degrees + t * t));
}

double student_t_quantile(double confidence, double degrees) {
  CHECK(confidence >= 0.0 && confidence < 1.0, "a confidence is in [0, 1)");
  double high = 1.0;
  while (student_t_two_sided(high, degrees) > 1.0 - confidence && high < 1e15) high *= 2.0;
  double low = 0.0;
  constexpr int kHalvings = 200;
  for (int i = 0; i < kHalvings && high - low > 1e-14 * high; ++i) {
    const double middle = (low + high) / 2.0;
    (student_t_two_sided(middle, degrees) > 1.0 - confidence ? low : high) = middle;
  }
  return (low + high) / 2.0;
}

std::optional<Slope> fit_slope(std::span<const double> x, std::span<const double> y) {
  CHECK(x.size() == y.size(), "as many x as y");
  const size_t n = x.size();
  if (n < 3) return std::nullopt;
  double mean_x = 0.0;
  double mean_y = 0.0;
  for (size_t i = 0; i < n; ++i) {
    mean_x += x[i] / static_cast<double>(n);
    mean_y += y[i] / static_cast<double>(n);
  }
  double sum_xx = 0.0;
  double sum_xy = 0.0;
  for (size_t i = 0; i < n; ++i) {
    sum_xx += (x[i] - mean_x) * (x[i] - mean_x);
    sum_xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  if (sum_xx <= 0.0) return std::nullopt;
  Slope fit{.slope = sum_xy / sum_xx, .intercept = mean_y - sum_xy / sum_xx * mean_x};
  double residuals = 0.0;
  for (size_t i = 0; i < n; ++i) {
    const double residual = y[i] - fit.intercept - fit.slope * x[i];
    residuals += residual * residual;
  }
  const double degrees = static_cast<double>(n - 2);
  const double error = std::sqrt(residuals / degrees / sum_xx);
  // On a line exactly: any slope at all is one.
  if (error == 0.0) {
    fit.p_value = fit.slope == 0.0 ? 1.0 : 0.0;
  } else {
    fit.p_value = student_t_two_sided(fit.slope / error, degrees);
  }
  return fit;
}

}  // namespace millrace::bench
