// The rates of guidellm's sweep.
#pragma once

#include <cstddef>
#include <vector>

namespace millrace::bench {

// Of a sweep of `size` points, the first of which is one request at a time and the second as many
// as go: linspace(synchronous, throughput, size - 1) without its first, so size - 2 rates, the last
// of which is `throughput`. Requests per second. REQUIRES: size >= 2.
std::vector<double> sweep_rates(double synchronous, double throughput, size_t size);

}  // namespace millrace::bench
