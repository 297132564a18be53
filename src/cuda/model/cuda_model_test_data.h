// For tests of models on the emulated device: tiny ones, and prompts that run on them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cuda/model/cuda_model.h"
#include "model/model_goldens.h"
#include "model/model_test_data.h"

namespace millrace::cuda {

constexpr RunnerLimits kLimits = {
    .block_size = 16,
    .num_blocks = 120,
    .max_model_len = 800,
    .max_num_batched_tokens = 80,
    .max_num_logits = 80,
    .num_hidden_slots = 3,
};
constexpr uint64_t kSeed = 5;

// How a model is loaded and its steps are launched.
enum class Launch { kKernels, kGraphs };

inline std::unique_ptr<CudaModel> load_cuda(
    const ModelConfig& config,
    Launch launch,
    uint64_t seed = kSeed,
    std::optional<QuantizedFormat> quantization = {}
) {
  ThreadPool pool(1);
  const TinyWeights weights(config, seed, DType::kBFloat16);
  Result<std::unique_ptr<CudaModel>> model = CudaModel::load(
      config,
      weights,
      {.limits = kLimits, .use_graphs = launch == Launch::kGraphs, .quantization = quantization},
      pool
  );
  CHECK(model.ok(), model.error().message);
  return *std::move(model);
}

inline std::vector<TokenId> random_tokens(size_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& id : tokens) id = static_cast<TokenId>(rng.below(103));
  return tokens;
}

// The logits of all positions of a prompt, between neighbours: of the last 12 tokens `chunk` at a
// time.
inline Logits run_prompt(
    ModelRunner& model, const std::vector<TokenId>& tokens, int32_t chunk, size_t num_neighbours
) {
  std::vector<std::vector<TokenId>> prompts = {tokens};
  for (size_t n = 0; n < num_neighbours; ++n) prompts.push_back(random_tokens(40 + 20 * n, n));
  std::vector<TestSequence> sequences =
      make_sequences(model, prompts, 1000 + static_cast<uint64_t>(chunk));
  const auto vocab = static_cast<size_t>(model.vocab_size());
  Logits bits;
  while (sequences[0].num_left() > 0) {
    std::vector<TestChunk> chunks;
    for (size_t n = 1; n < sequences.size(); ++n) {
      if (sequences[n].num_left() > 0) chunks.push_back({&sequences[n], 1});
    }
    const size_t place = chunks.size() / 2;
    const int32_t num_before = sequences[0].num_left() - 12;
    const int32_t count =
        num_before > 0 ? std::min(60, num_before) : std::min(chunk, sequences[0].num_left());
    chunks.insert(chunks.begin() + static_cast<ptrdiff_t>(place), {&sequences[0], count});
    const ForwardBatch batch = make_batch(chunks, model.block_size());
    const std::span<const float> logits = model.forward(batch);
    const auto begin = static_cast<size_t>(batch.cu_seqlens[place]) * vocab;
    append_bits(logits.subspan(begin, static_cast<size_t>(count) * vocab), bits);
  }
  return bits;
}

}  // namespace millrace::cuda
