// When a block copy pays: the copy of a block beside the computing of its tokens, for the shape of
// SmolLM2-135M in bfloat16 (30 layers, 3 KV heads of 64: 360 KiB a block).
#include <benchmark/benchmark.h>

#include <cstring>

#include "base/rng.h"
#include "checkpoint/dummy.h"
#include "model/cpu_model.h"
#include "model/kv_cache.h"
#include "model/weight_names.h"

namespace millrace {
namespace {

constexpr int32_t kBlockSize = 16;
constexpr int32_t kContext = 512;  // tokens before those that are computed

ModelConfig smollm2_config() {
  ModelConfig config;
  config.hidden_size = 576;
  config.intermediate_size = 1536;
  config.num_layers = 30;
  config.num_heads = 9;
  config.num_kv_heads = 3;
  config.head_dim = 64;
  config.vocab_size = 49152;
  config.max_position_embeddings = 8192;
  config.tie_word_embeddings = true;
  return config;
}

// Copies between blocks far apart in a pool that no cache holds: (threads, copies of one batch).
void copy_blocks(benchmark::State& state) {
  const ModelConfig config = smollm2_config();
  constexpr int32_t kNumBlocks = 2048;
  ThreadPool pool(static_cast<size_t>(state.range(0)));
  KvCache cache = *KvCache::allocate(
      config, {.dtype = DType::kBFloat16, .block_size = kBlockSize, .num_blocks = kNumBlocks}
  );
  const size_t block_bytes = kv_bytes_per_block(config, DType::kBFloat16, kBlockSize);
  // Untouched memory is one shared page of zeros, and reads of it come from the cache.
  for (size_t layer = 0; layer < 30; ++layer) {
    const KvView view = cache.layer(layer);
    std::memset(view.keys, 1, block_bytes / 30 * kNumBlocks);
  }
  Rng rng(1);
  std::vector<KvBlockCopy> copies(static_cast<size_t>(state.range(1)));
  for (auto _ : state) {
    state.PauseTiming();
    for (KvBlockCopy& copy : copies) {
      copy.from = static_cast<int32_t>(rng.below(kNumBlocks));
      copy.to = (copy.from + 1 + static_cast<int32_t>(rng.below(kNumBlocks - 1))) % kNumBlocks;
    }
    state.ResumeTiming();
    cache.copy_blocks(copies, pool);
  }
  // As memory counts it: each byte is read once and written once.
  const auto num_bytes = static_cast<int64_t>(2 * copies.size() * block_bytes);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * num_bytes);
}
BENCHMARK(copy_blocks)
    ->ArgsProduct({{1, 2}, {1, 8}})
    ->ArgNames({"threads", "copies"})
    ->UseRealTime();

// What a copy saves: a step of so many tokens of one sequence, the logits of the last.
void compute_tokens(benchmark::State& state) {
  const ModelConfig config = smollm2_config();
  const auto weights = *make_dummy_weights(expected_tensors(config), 1);
  ThreadPool pool(static_cast<size_t>(state.range(0)));
  const CpuModelOptions options{
      .num_blocks = 64,
      .max_model_len = 1024,
      .max_num_batched_tokens = 64,
      .max_num_logits = 1,
  };
  const auto model = *CpuModel::load(config, *weights, options, pool);
  ForwardBatch batch;
  const auto num_tokens = static_cast<int32_t>(state.range(1));
  batch.cu_seqlens = {0, num_tokens};
  batch.context_lens = {kContext + num_tokens};
  batch.max_blocks_per_sequence = 64;
  for (int32_t block = 0; block < 64; ++block) batch.block_tables.push_back(block);
  for (int32_t i = 0; i < num_tokens; ++i) {
    batch.token_ids.push_back(i);
    batch.positions.push_back(kContext + i);
    batch.slot_mapping.push_back(kContext + i);
  }
  batch.logit_rows = {LogitRow::of_token(num_tokens - 1)};
  for (auto _ : state) benchmark::DoNotOptimize(model->forward(batch).data());
}
BENCHMARK(compute_tokens)
    ->ArgsProduct({{1, 2}, {1, 2, 4, 8, 15, 16, 17, 24, 32}})
    ->ArgNames({"threads", "tokens"})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// An exact repeat: the lm_head of a saved state alone.
void resume(benchmark::State& state) {
  const ModelConfig config = smollm2_config();
  const auto weights = *make_dummy_weights(expected_tensors(config), 1);
  ThreadPool pool(static_cast<size_t>(state.range(0)));
  const CpuModelOptions options{
      .num_blocks = 1,
      .max_model_len = 16,
      .max_num_batched_tokens = 1,
      .max_num_logits = 1,
      .num_hidden_slots = 1,
  };
  const auto model = *CpuModel::load(config, *weights, options, pool);
  ForwardBatch batch;
  batch.cu_seqlens = {0};
  batch.logit_rows = {LogitRow::of_slot(0)};
  for (auto _ : state) benchmark::DoNotOptimize(model->forward(batch).data());
}
BENCHMARK(resume)->Arg(1)->Arg(2)->ArgName("threads")->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace millrace
