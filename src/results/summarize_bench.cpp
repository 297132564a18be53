// How long a large point takes to be read and summed up: 10,000 requests of 100 tokens, a million
// gaps.
#include <benchmark/benchmark.h>

#include "results/record_file.h"
#include "results/record_fixture.h"
#include "results/summarize.h"

namespace millrace::bench {
namespace {

const PointRecord& large_record() {
  static const PointRecord record = [] {
    PointRecord made = make_closed_loop(64, 10'000, {.num_chunks = 100});
    for (RequestRecord& request : made.requests) {
      for (size_t i = 0; i < request.chunks.size(); ++i) {
        const auto jitter =
            Nanos((request.index * 7919 + static_cast<int64_t>(i) * 104'729) % 999'983);
        request.chunks[i] = Chunk::make(request.chunks[i].at() + jitter, 1);
      }
    }
    return made;
  }();
  return record;
}

void summarize_large(benchmark::State& state) {
  const SummaryOptions options{.num_resamples = static_cast<int32_t>(state.range(0))};
  for (auto _ : state) benchmark::DoNotOptimize(summarize(large_record(), options));
}
BENCHMARK(summarize_large)->Arg(0)->Arg(1000)->Unit(benchmark::kMillisecond);

void write_large(benchmark::State& state) {
  size_t num_bytes = 0;
  for (auto _ : state) num_bytes += to_jsonl(large_record()).size();
  state.SetBytesProcessed(static_cast<int64_t>(num_bytes));
}
BENCHMARK(write_large)->Unit(benchmark::kMillisecond);

void read_large(benchmark::State& state) {
  const std::string lines = to_jsonl(large_record());
  for (auto _ : state) benchmark::DoNotOptimize(parse_records(lines));
  state.SetBytesProcessed(static_cast<int64_t>(lines.size()) * state.iterations());
}
BENCHMARK(read_large)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace millrace::bench
