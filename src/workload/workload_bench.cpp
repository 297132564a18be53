// Speed of making prompts, in prompts a second on one core. Needs ../shared/data for the published
// vocabularies; the source folder is found from this file's own path.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <string>

#include "workload/arrivals.h"
#include "workload/dataset.h"

namespace millrace::bench {
namespace {

std::shared_ptr<const TokenCodec> codec_of(const std::string& name) {
  const std::filesystem::path source =
      std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  const std::filesystem::path path =
      source / ".." / "shared" / "data" / "tokenizers" / name / "tokenizer.json";
  Result<Tokenizer> tokenizer = Tokenizer::from_file(path.string());
  if (!tokenizer) return nullptr;
  return make_local_codec(std::make_shared<const Tokenizer>(*std::move(tokenizer)));
}

void make_prompts(benchmark::State& state, const std::string& tokenizer, DatasetOptions options) {
  const std::shared_ptr<const TokenCodec> codec = codec_of(tokenizer);
  if (codec == nullptr) return state.SkipWithError("needs ../shared/data/tokenizers");
  Result<std::unique_ptr<Dataset>> dataset = make_dataset(options, codec);
  if (!dataset) return state.SkipWithError(dataset.error().message.c_str());
  size_t index = 0, num_exact = 0;
  for (auto _ : state) {
    Result<PlannedSession> session = (*dataset)->session(index++);
    num_exact += session->turns.front().num_prompt_tokens == options.input_len.value_or(0);
    benchmark::DoNotOptimize(session);
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["exact"] = static_cast<double>(num_exact) / static_cast<double>(index);
}

void of_1024_tokens(
    benchmark::State& state, const std::string& tokenizer, const std::string& name
) {
  make_prompts(state, tokenizer, {.name = name, .nonce = 1, .input_len = 1024, .output_len = 16});
}
BENCHMARK_CAPTURE(of_1024_tokens, smollm2_random, "smollm2", "random");
BENCHMARK_CAPTURE(of_1024_tokens, qwen3_random, "qwen3", "random");
BENCHMARK_CAPTURE(of_1024_tokens, llama3_random, "llama3.1", "random");
BENCHMARK_CAPTURE(of_1024_tokens, smollm2_random_ids, "smollm2", "random-ids");
BENCHMARK_CAPTURE(of_1024_tokens, qwen3_random_ids, "qwen3", "random-ids");
BENCHMARK_CAPTURE(of_1024_tokens, llama3_random_ids, "llama3.1", "random-ids");

void grid_of_1024_tokens(benchmark::State& state, const std::string& tokenizer) {
  make_prompts(
      state,
      tokenizer,
      {.name = "grid", .nonce = 1, .input_len = 1024, .output_len = 16, .hit_len = 512}
  );
}
BENCHMARK_CAPTURE(grid_of_1024_tokens, smollm2, "smollm2");
BENCHMARK_CAPTURE(grid_of_1024_tokens, llama3, "llama3.1");

// What a dataset costs before its first prompt: its words are looked for.
void make_random(benchmark::State& state, const std::string& tokenizer) {
  const std::shared_ptr<const TokenCodec> codec = codec_of(tokenizer);
  if (codec == nullptr) return state.SkipWithError("needs ../shared/data/tokenizers");
  for (auto _ : state) {
    Result<std::unique_ptr<Dataset>> dataset = make_dataset({.name = "random"}, codec);
    benchmark::DoNotOptimize(dataset);
  }
}
BENCHMARK_CAPTURE(make_random, smollm2, "smollm2")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(make_random, qwen3, "qwen3")->Unit(benchmark::kMillisecond);

void next_arrival(benchmark::State& state, double burstiness) {
  Result<std::unique_ptr<Arrivals>> arrivals =
      make_arrivals({.request_rate = 1000.0, .burstiness = burstiness});
  for (auto _ : state) benchmark::DoNotOptimize((*arrivals)->next());
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(next_arrival, poisson, 1.0);
BENCHMARK_CAPTURE(next_arrival, gamma_half, 0.5);

}  // namespace
}  // namespace millrace::bench
