// What a phase of the compute threads costs: back to back, as within a step, and after a pause in
// which the threads fell asleep, as at its beginning.
#include <benchmark/benchmark.h>

#include <chrono>
#include <thread>

#include "base/thread_pool.h"

namespace millrace {
namespace {

// Argument: threads.
void BM_Phase(benchmark::State& state) {
  ThreadPool pool(static_cast<size_t>(state.range(0)));
  for (auto _ : state) pool.parallel_for(pool.num_threads(), [](size_t, size_t) {});
}
BENCHMARK(BM_Phase)->Arg(1)->Arg(2)->UseRealTime();

void BM_PhaseOfSleepers(benchmark::State& state) {
  ThreadPool pool(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const auto start = std::chrono::steady_clock::now();
    pool.parallel_for(pool.num_threads(), [](size_t, size_t) {});
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(taken.count());
  }
}
BENCHMARK(BM_PhaseOfSleepers)->Arg(2)->UseManualTime()->Iterations(500);

}  // namespace
}  // namespace millrace
