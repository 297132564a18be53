// How fast the emulator starts threads, lets them wait, and multiplies.
#include <benchmark/benchmark.h>

#include "cuda_device.h"

namespace millrace::cuda {
namespace {

constexpr uint32_t kBlocks = 1000;

void run_blocks(benchmark::State& state, int64_t num_waits, const std::function<void()>& body) {
  const auto num_threads = static_cast<uint32_t>(state.range(0));
  for (auto _ : state) {
    emulated::run_grid({.grid = {kBlocks}, .block = {num_threads}}, body);
  }
  const int64_t num_items = state.iterations() * kBlocks * num_threads;
  state.SetItemsProcessed(num_items * (num_waits > 0 ? num_waits : 1));
}

void BM_ThreadsThatNeverWait(benchmark::State& state) {
  run_blocks(state, 0, [] { benchmark::DoNotOptimize(threadIdx.x); });
}
BENCHMARK(BM_ThreadsThatNeverWait)->Arg(128)->Arg(256);

void BM_ThreadsWithABarrier(benchmark::State& state) {
  run_blocks(state, 0, [] { sync_block(); });
}
BENCHMARK(BM_ThreadsWithABarrier)->Arg(128)->Arg(256)->Arg(1024);

void BM_Shuffles(benchmark::State& state) {
  run_blocks(state, 10, [] {
    uint32_t value = threadIdx.x;
    for (int i = 0; i < 10; ++i) value = shuffle_xor(value, 1);
    benchmark::DoNotOptimize(value);
  });
}
BENCHMARK(BM_Shuffles)->Arg(128);

// Items are those of lanes: 32 of them are one product of 16 x 8 x 16.
void BM_Fragments(benchmark::State& state) {
  run_blocks(state, 10, [] {
    float sums[4] = {};
    const uint32_t a[4] = {0x3F803F80, 0x3F803F80, 0x3F803F80, 0x3F803F80};
    const uint32_t b[2] = {0x3F803F80, 0x3F803F80};
    for (int i = 0; i < 10; ++i) multiply_fragments(sums, a, b);
    benchmark::DoNotOptimize(sums[0]);
  });
}
BENCHMARK(BM_Fragments)->Arg(128);

}  // namespace
}  // namespace millrace::cuda
