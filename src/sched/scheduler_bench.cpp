// What the control plane costs: one plan and commit of a step in which everyone gets one token,
// finding a long prompt in the prefix cache, and guessing tokens.
#include <benchmark/benchmark.h>

#include <chrono>

#include "base/rng.h"
#include "sched/ngram_drafter.h"
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
      .num_blocks = num_running << 8,
      .num_hidden_slots = num_running << 8,
  };
  Scheduler scheduler(config);
  for (int32_t i = 0; i < num_running + num_waiting; ++i) {
    Request request{
        .id = RequestId{static_cast<uint64_t>(i)}, .prompt = std::vector<TokenId>(64, i)};
    request.sampling.max_tokens = 1 << 20;
    if (!scheduler.add(std::move(request)).ok()) return state.SkipWithError("refused");
  }
  // Made by the sampler, not the scheduler: so once, but for the token.
  std::vector<StepOutcome> outcomes(static_cast<size_t>(num_running), SampledTokens(1));
  TokenId token = 0;
  for (auto _ : state) {
    const StepPlan plan = scheduler.plan(TimePoint{});
    ++token;
    for (StepOutcome& outcome : outcomes) std::get<SampledTokens>(outcome)[0].id = token;
    benchmark::DoNotOptimize(scheduler.commit(plan, outcomes, TimePoint{}));
  }
  state.SetItemsProcessed(state.iterations() * num_running);
}
// A fixed number of steps, whose sequences fit the pool: the longest has 64 + 4,000 tokens.
BENCHMARK(BM_PlanAndCommit)
    ->Args({1, 0})
    ->Args({8, 0})
    ->Args({64, 4000})
    ->Args({256, 0})
    ->Args({256, 4000})
    ->Iterations(4000);

// Argument: tokens of a prompt that is all there, as an exact repeat; the hashes of its blocks are
// computed each time, as for a new request.
void BM_MatchPrefix(benchmark::State& state) {
  const auto num_tokens = static_cast<int32_t>(state.range(0));
  constexpr int32_t kBlockSize = 16;
  PrefixCache cache(
      {.num_blocks = num_tokens / kBlockSize, .block_size = kBlockSize, .num_hidden_slots = 1}
  );
  std::vector<TokenId> prompt(static_cast<size_t>(num_tokens));
  for (int32_t i = 0; i < num_tokens; ++i) prompt[static_cast<size_t>(i)] = i;
  PrefixHashes hashes(Hash128{});
  const PrefixCache::Prefix prefix{.tokens = {.prompt = prompt}, .hashes = hashes};
  const auto table = cache.try_allocate(static_cast<size_t>(num_tokens / kBlockSize)).value();
  for (int32_t i = 0; i < num_tokens / kBlockSize; ++i) {
    cache.keep(prefix, i, kBlockSize, table[static_cast<size_t>(i)]);
  }
  cache.keep_hidden(prefix, table.back(), cache.reserve_hidden(prefix).value());
  cache.release(table);
  for (auto _ : state) {
    PrefixHashes fresh(Hash128{});
    const PrefixMatch match =
        cache.match({.tokens = {.prompt = prompt}, .hashes = fresh}, num_tokens);
    if (!match.hidden) state.SkipWithError("the prompt was not found");
  }
  state.SetItemsProcessed(state.iterations() * num_tokens);
}
BENCHMARK(BM_MatchPrefix)->Arg(1024)->Arg(32768);

// What guessing costs a step of one sequence, found or not. Argument: tokens of its prompt. The
// second number is what entering the prompt takes, once.
void BM_Draft(benchmark::State& state) {
  const auto num_tokens = static_cast<int32_t>(state.range(0));
  Rng rng(1);
  std::vector<TokenId> prompt;
  for (int32_t i = 0; i < num_tokens; ++i) prompt.push_back(static_cast<TokenId>(rng.below(30000)));
  const NgramDrafter::Options options{
      .speculation = {.num_speculative_tokens = 5, .prompt_lookup_max = 4, .prompt_lookup_min = 2},
      .num_prompt_tokens = num_tokens,
  };
  NgramDrafter drafter(options, NgramDrafter::make_prompt_index(options));
  std::vector<TokenId> output = {1};
  std::vector<TokenId> drafts;
  const auto begin = std::chrono::steady_clock::now();
  for (int32_t i = 0; i <= num_tokens; i += NgramDrafter::kNumEndsPerCall) {
    drafter.draft({.prompt = prompt, .output = output}, 5, drafts);
  }
  const std::chrono::duration<double> entering = std::chrono::steady_clock::now() - begin;
  state.counters["entering_s"] = entering.count();
  // Every fourth token of the output is new; the others follow the prompt from a random place.
  size_t place = 0;
  for (auto _ : state) {
    if (output.size() % 4 == 0) place = rng.below(prompt.size());
    output.push_back(prompt[place++ % prompt.size()]);
    drafter.draft({.prompt = prompt, .output = output}, 5, drafts);
    benchmark::DoNotOptimize(drafts.data());
  }
}
BENCHMARK(BM_Draft)->Arg(1024)->Arg(32768)->Iterations(100000);

}  // namespace
}  // namespace millrace
