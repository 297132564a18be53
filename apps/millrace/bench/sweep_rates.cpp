#include "bench/sweep_rates.h"

#include "base/check.h"

namespace millrace::bench {

std::vector<double> sweep_rates(double synchronous, double throughput, size_t size) {
  CHECK(size >= 2, "a sweep has two points at least");
  std::vector<double> rates;
  const size_t num_rates = size - 2;
  for (size_t i = 1; i <= num_rates; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(num_rates);
    rates.push_back(i == num_rates ? throughput : synchronous + share * (throughput - synchronous));
  }
  return rates;
}

}  // namespace millrace::bench
