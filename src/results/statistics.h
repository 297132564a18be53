// Exact statistics of samples, and the tests that verdicts and comparisons stand on. Pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace millrace::bench {

// One sample. With Quantiles::kLinear a weight is a whole number: how often the value stands there.
struct Sample {
  double value = 0.0;
  double weight = 1.0;
  uint32_t request = 0;      // whose it is: an index in the order of time, for resampling
  bool is_censored = false;  // the true value is at least this
};

// How a percentile is read off sorted samples.
enum class Quantiles {
  kLinear,       // between neighbours, as numpy's default
  kWeightedCdf,  // the first value whose share of the weight reaches the rank, as guidellm
};

// Sorts by value; a censored sample comes behind an observed one of the same value, as the
// Kaplan-Meier estimator wants it.
void sort_samples(std::span<Sample> samples);

double total_weight(std::span<const Sample> samples);

// Of sorted samples, none of them censored. `rank` is 0 to 100. REQUIRES: samples are not empty
// and weigh more than 0.
double percentile(std::span<const Sample> sorted, double rank, Quantiles quantiles);

struct Moments {
  double mean = 0.0;
  double std = 0.0;  // of the population
};
Moments moments(std::span<const Sample> samples);

// The product-limit estimate of a distribution some of whose samples are only known to be longer
// (Kaplan and Meier 1958). Without censored ones it is the plain empirical distribution.
struct Survival {
  struct Step {
    double value = 0.0;
    double share = 0.0;  // of all, that ended here
  };
  std::vector<Step> steps;    // ascending
  double share_beyond = 0.0;  // that ends behind the last thing seen, nobody knows where
  double last_seen = 0.0;     // the longest sample, censored or not

  // Infinite where so many have not ended within what was seen: the percentile is beyond it.
  double percentile(double rank) const;
  // Restricted to what was seen: a lower bound where share_beyond > 0.
  Moments moments() const;
};
Survival survival(std::span<const Sample> sorted);

// The regularized incomplete beta function I_x(a, b), by its continued fraction (Lentz's method,
// NIST DLMF 8.17.22), to about 1e-14. REQUIRES: a, b > 0.
double incomplete_beta(double a, double b, double x);

// P(|T| >= |t|) of Student's distribution. REQUIRES: degrees > 0.
double student_t_two_sided(double t, double degrees);

// The t that |T| stays below with probability `confidence`.
double student_t_quantile(double confidence, double degrees);

// The line y = intercept + slope * x by least squares, and whether its slope is other than 0.
struct Slope {
  double slope = 0.0;
  double intercept = 0.0;
  double p_value = 1.0;  // two-sided
};
// none: fewer than three points, or all at one x.
std::optional<Slope> fit_slope(std::span<const double> x, std::span<const double> y);

}  // namespace millrace::bench
