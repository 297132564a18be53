// What the control plane costs: one plan and commit of a step in which everyone gets one token.
#include <benchmark/benchmark.h>

#include "sched/scheduler.h"

namespace millrace {
namespace {

// Arguments: sequences that run, requests that wait.
void BM_PlanAndCommit(benchmark::State& state) {
  const auto num_running = static_cast<int32_t>(state.range(0));
  const auto num_waiting = static_cast<int32_t>(state.range(1));
  const SchedulerConfig config{
      .max_num_batched_tokens = 64 * num_running,
      .long_prefill_token_threshold = 64,
      .max_num_seqs = num_running,
      .max_logit_rows = num_running,
      .max_model_len = 1 << 20,
      .block_size = 16,
      .num_blocks = num_running << 16,
  };
  Scheduler scheduler(config);
  for (int32_t i = 0; i < num_running + num_waiting; ++i) {
    Request request{
        .id = RequestId{static_cast<uint64_t>(i)}, .prompt = std::vector<TokenId>(64, 1)};
    request.sampling.max_tokens = 1 << 20;
    if (!scheduler.add(std::move(request)).ok()) return state.SkipWithError("refused");
  }
  for (auto _ : state) {
    const StepPlan plan = scheduler.plan(TimePoint{});
    const std::vector<StepOutcome> outcomes(plan.scheduled.size(), SampledToken{.id = 1});
    benchmark::DoNotOptimize(scheduler.commit(plan, outcomes, TimePoint{}));
  }
  state.SetItemsProcessed(state.iterations() * num_running);
}
BENCHMARK(BM_PlanAndCommit)->Args({1, 0})->Args({64, 0})->Args({64, 4000})->Args({256, 4000});

}  // namespace
}  // namespace millrace
