// What the choice of a token costs, of a vocabulary of 151936: logits of a model spread like these.
#include <benchmark/benchmark.h>

#include <cmath>

#include "base/rng.h"
#include "sampling/sampler.h"

namespace millrace {
namespace {

std::vector<float> bell_logits() {
  Rng rng(1);
  std::vector<float> logits(151936);
  for (float& logit : logits) {
    double sum = -6.0;
    for (int i = 0; i < 12; ++i) sum += rng.unit();
    logit = static_cast<float>(sum * 3.0);
  }
  return logits;
}

void BM_Sample(benchmark::State& state, const SamplingParams& params) {
  const std::vector<float> logits = bell_logits();
  Sampler sampler;
  uint64_t seed = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(sampler.sample(logits, {.params = params, .seed = ++seed}));
  }
}
BENCHMARK_CAPTURE(BM_Sample, greedy, {.temperature = 0.0F});
BENCHMARK_CAPTURE(BM_Sample, plain, {});
BENCHMARK_CAPTURE(BM_Sample, top_k, {.top_k = 20});
BENCHMARK_CAPTURE(BM_Sample, top_p, {.top_p = 0.9F});
BENCHMARK_CAPTURE(BM_Sample, top_k_and_p, {.temperature = 0.7F, .top_k = 20, .top_p = 0.8F});
BENCHMARK_CAPTURE(BM_Sample, min_p, {.min_p = 0.05F});

}  // namespace
}  // namespace millrace
