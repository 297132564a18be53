// What the machine can do at most, to set beside the other benchmarks: reading memory with each
// number of threads, and each instruction that multiplies and adds.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>

#include "kernels/machine_limits.h"

namespace millrace {
namespace {

void BM_MachineRead(benchmark::State& state) {
  ThreadPool pool(static_cast<size_t>(state.range(0)));
  MachineLimits limits = *MachineLimits::prepare(pool, best_isa());
  for (auto _ : state) benchmark::DoNotOptimize(limits.read_once());
  state.counters["GB/s"] = benchmark::Counter(
      static_cast<double>(limits.num_bytes_read()) * 1e-9 * static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate
  );
}

void BM_MachinePeak(benchmark::State& state) {
  ThreadPool pool(static_cast<size_t>(state.range(0)));
  const auto instruction = static_cast<DotInstruction>(state.range(1));
  MachineLimits limits = *MachineLimits::prepare(pool, best_isa(), 1);
  double operations = 0.0;
  for (auto _ : state) {
    operations += 2.0 * static_cast<double>(limits.run_multiply_adds(instruction));
  }
  state.counters["GFLOP/s"] = benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsRate);
  state.SetLabel(std::string(name_of(instruction)));
}

void add_peaks(benchmark::internal::Benchmark* bench) {
  for (const DotInstruction instruction : supported_dot_instructions()) {
    for (const int64_t num_threads : {1, 2}) {
      bench->Args({num_threads, static_cast<int64_t>(instruction)});
    }
  }
}

BENCHMARK(BM_MachineRead)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(BM_MachinePeak)
    ->ArgNames({"threads", "instruction"})
    ->Apply(add_peaks)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace millrace
