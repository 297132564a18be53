#include "cuda/model/device_workspace.h"

#include <algorithm>

#include "base/math.h"
#include "cuda/kernels/operand_tiles.h"
#include "cuda/runtime.h"

namespace millrace::cuda {
namespace {

struct Counts {
  size_t hidden;
  size_t normed;
  size_t qkv;
  size_t query;
  size_t attention;
  size_t activation;
  size_t logits_hidden;
  size_t logits;
  size_t head_parts;
  size_t partials;
  size_t counters;
  size_t rotated;
};

size_t num_splits_max(const RunnerLimits& limits) {
  return div_ceil(static_cast<size_t>(limits.max_model_len), kSplitPositions);
}

// Of one product at a time: of each token's widest, or of the output head.
size_t num_rotated(const ModelConfig& config, const RunnerLimits& limits) {
  const auto tokens = static_cast<size_t>(limits.max_num_batched_tokens);
  const auto rows = static_cast<size_t>(limits.max_num_logits);
  const int64_t widest = std::max({config.hidden_size, config.q_size(), config.intermediate_size});
  return std::max(
      num_token_elements(tokens, static_cast<size_t>(widest)),
      num_token_elements(rows, static_cast<size_t>(config.hidden_size))
  );
}

Counts counts_of(
    const ModelConfig& config,
    const RunnerLimits& limits,
    std::optional<QuantizedFormat> quantization
) {
  const auto tokens = static_cast<size_t>(limits.max_num_batched_tokens);
  const auto rows = static_cast<size_t>(limits.max_num_logits);
  const auto hidden = static_cast<size_t>(config.hidden_size);
  const auto q_size = static_cast<size_t>(config.q_size());
  return {
      .hidden = tokens * hidden,
      .normed = num_token_elements(std::max(tokens, rows), hidden),
      .qkv = tokens * static_cast<size_t>(config.q_size() + 2 * config.kv_size()),
      .query = tokens * q_size,
      .attention = num_token_elements(tokens, q_size),
      .activation = num_token_elements(tokens, static_cast<size_t>(config.intermediate_size)),
      .logits_hidden = rows * hidden,
      .logits = rows * static_cast<size_t>(config.vocab_size),
      .head_parts = rows * static_cast<size_t>(config.num_head_parts.value_or(0)) *
                    static_cast<size_t>(config.head_size()),
      .partials = attention_partials_size(
          DeviceWorkspace::kSplitTilesMax,
          num_splits_max(limits),
          static_cast<size_t>(config.num_kv_heads),
          static_cast<size_t>(config.head_dim)
      ),
      .counters = DeviceWorkspace::kSplitTilesMax * static_cast<size_t>(config.num_kv_heads),
      .rotated = quantization ? num_rotated(config, limits) : 0,
  };
}

}  // namespace

size_t DeviceWorkspace::num_bytes(
    const ModelConfig& config,
    const RunnerLimits& limits,
    std::optional<QuantizedFormat> quantization
) {
  const Counts counts = counts_of(config, limits, quantization);
  size_t num_bytes = DeviceArena::piece_bytes<uint32_t>(counts.counters);
  for (const size_t floats :
       {counts.hidden,
        counts.qkv,
        counts.logits_hidden,
        counts.logits,
        counts.head_parts,
        counts.partials}) {
    num_bytes += DeviceArena::piece_bytes<float>(floats);
  }
  for (const size_t halves :
       {counts.normed, counts.query, counts.attention, counts.activation, counts.rotated}) {
    num_bytes += DeviceArena::piece_bytes<uint16_t>(halves);
  }
  return num_bytes;
}

Result<DeviceWorkspace> DeviceWorkspace::allocate(
    StreamHandle stream,
    const ModelConfig& config,
    const RunnerLimits& limits,
    std::optional<QuantizedFormat> quantization
) {
  Result<DeviceArena> memory = DeviceArena::allocate(num_bytes(config, limits, quantization));
  if (!memory) return memory.error();
  const Counts counts = counts_of(config, limits, quantization);
  DeviceWorkspace space;
  space.memory = *std::move(memory);
  space.hidden = space.memory.take<float>(counts.hidden);
  space.normed = space.memory.take<uint16_t>(counts.normed);
  space.qkv = space.memory.take<float>(counts.qkv);
  space.query = space.memory.take<uint16_t>(counts.query);
  space.attention = space.memory.take<uint16_t>(counts.attention);
  space.activation = space.memory.take<uint16_t>(counts.activation);
  space.logits_hidden = space.memory.take<float>(counts.logits_hidden);
  space.logits = space.memory.take<float>(counts.logits);
  if (counts.head_parts > 0) space.head_parts = space.memory.take<float>(counts.head_parts);
  space.partials = {
      .num_splits_max = num_splits_max(limits),
      .memory = space.memory.take<float>(counts.partials),
      .counters = space.memory.take<uint32_t>(counts.counters)};
  set_bytes(stream, space.partials.counters, 0, counts.counters * sizeof(uint32_t));
  if (quantization) space.rotated = space.memory.take<uint16_t>(counts.rotated);
  return space;
}

}  // namespace millrace::cuda
