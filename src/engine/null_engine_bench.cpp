// What a made-up token costs, with its event: so that a server measured with the null engine is the
// server that is measured. The sink counts and drops.
#include <benchmark/benchmark.h>

#include <atomic>
#include <ctime>
#include <memory>
#include <numeric>
#include <thread>

#include "base/check.h"
#include "engine/null_engine.h"

namespace millrace {
namespace {

class CountingSink final : public EventSink {
 public:
  void on_event(EngineEvent event) override {
    const uint64_t n = num_events_.load(std::memory_order_relaxed);
    num_events_.store(n + 1, std::memory_order_relaxed);  // one writer
    benchmark::DoNotOptimize(event);
  }
  uint64_t num_events() const { return num_events_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> num_events_{0};
};

std::unique_ptr<NullEngine> start_engine(int32_t num_streams, double tokens_per_second) {
  NullEngineOptions options{
      .vocab_size = 50000,
      .tokens_per_second = tokens_per_second,
      .max_model_len = 1 << 26,
      .max_num_seqs = num_streams,
      .max_num_live_seqs = num_streams,
  };
  options.n_max = 1;
  options.plain_ids.resize(40000);
  std::iota(options.plain_ids.begin(), options.plain_ids.end(), 0);
  auto engine = NullEngine::start(std::move(options));
  CHECK(engine.ok(), engine.error().message);
  return std::move(*engine);
}

void submit_endless(NullEngine& engine, int64_t num_streams, std::shared_ptr<EventSink> sink) {
  for (int64_t i = 0; i < num_streams; ++i) {
    EngineRequest request{.prompt = {1}};
    request.sampling.max_tokens = (1 << 26) - 1;
    CHECK(engine.submit(std::move(request), sink).ok(), "refused");
  }
}

double process_cpu_seconds() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Arguments: streams, tokens per second of each. One iteration is 100 ms of the engine's life.
void BM_NullEngine(benchmark::State& state) {
  const auto num_streams = static_cast<int32_t>(state.range(0));
  const auto engine = start_engine(num_streams, static_cast<double>(state.range(1)));
  const auto sink = std::make_shared<CountingSink>();
  submit_endless(*engine, num_streams, sink);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));

  const uint64_t num_events_before = sink->num_events();
  const double cpu_seconds_before = process_cpu_seconds();
  const TimePoint begin = Clock::now();
  for (auto _ : state) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto num_events = static_cast<double>(sink->num_events() - num_events_before);
  const double cpu_seconds = process_cpu_seconds() - cpu_seconds_before;
  state.counters["cpu_ns_per_token"] = 1e9 * cpu_seconds / num_events;
  state.counters["tokens_per_s"] = num_events / to_seconds(Clock::now() - begin);
  state.counters["cpu_share"] = cpu_seconds / to_seconds(Clock::now() - begin);
}
BENCHMARK(BM_NullEngine)
    ->Args({1, 1'000'000'000})
    ->Args({64, 1'000'000'000})
    ->Args({10'000, 1'000'000'000})
    ->Args({64, 50})
    ->Args({10'000, 20})
    ->Iterations(10)
    ->UseRealTime();

// What an event costs to make, hand over and drop.
void BM_TokenEvent(benchmark::State& state) {
  CountingSink counting;
  EventSink* sink = &counting;
  benchmark::DoNotOptimize(sink);
  for (auto _ : state) {
    sink->on_event(TokenEvent{.request = RequestId{1}, .token = {.id = 2, .logprobs = {}}});
  }
  state.counters["bytes"] = sizeof(EngineEvent);
}
BENCHMARK(BM_TokenEvent);

}  // namespace
}  // namespace millrace
