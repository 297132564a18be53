// What an update of a metric costs, from one thread and from several at once.
#include <benchmark/benchmark.h>

#include "base/metrics.h"

namespace millrace {
namespace {

void BM_CounterAdd(benchmark::State& state) {
  static Counter counter;
  for (auto _ : state) counter.add();
}
BENCHMARK(BM_CounterAdd)->ThreadRange(1, 2)->UseRealTime();

void BM_HistogramObserve(benchmark::State& state) {
  static Histogram histogram(
      {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,
       0.3,    0.4,     0.5,    0.75,  1,      2.5,   5,    7.5,   10,   20,    40,  80},
      1'000'000'000
  );
  int64_t value = 0;
  for (auto _ : state) {
    histogram.observe(value & 0x3ffffff);  // up to 67 ms
    value += 7'654'321;
  }
}
BENCHMARK(BM_HistogramObserve)->ThreadRange(1, 2)->UseRealTime();

}  // namespace
}  // namespace millrace
