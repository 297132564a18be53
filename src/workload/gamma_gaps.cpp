#include "workload/gamma_gaps.h"

#include <cmath>

namespace millrace::bench {

double GammaGaps::next() {
  if (std::isinf(shape_)) return 1.0;
  if (shape_ == 1.0) return -std::log1p(-rng_.unit());
  if (shape_ > 1.0) return gamma(shape_) / shape_;
  // A gamma of shape a is one of shape a + 1 times U^(1/a).
  const double whole = gamma(shape_ + 1.0);
  return whole * std::pow(1.0 - rng_.unit(), 1.0 / shape_) / shape_;
}

// Marsaglia's polar method. Its second value is let go: a draw then depends on nothing before it
// but the count of numbers used.
double GammaGaps::normal() {
  while (true) {
    const double x = 2.0 * rng_.unit() - 1.0;
    const double y = 2.0 * rng_.unit() - 1.0;
    const double square = x * x + y * y;
    if (square > 0.0 && square < 1.0) return x * std::sqrt(-2.0 * std::log(square) / square);
  }
}

double GammaGaps::gamma(double shape) {
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  while (true) {
    const double x = normal();
    const double base = 1.0 + c * x;
    if (base <= 0.0) continue;
    const double v = base * base * base;
    const double u = 1.0 - rng_.unit();  // in (0, 1]
    if (std::log(u) < 0.5 * x * x + d * (1.0 - v + std::log(v))) return d * v;
  }
}

}  // namespace millrace::bench
