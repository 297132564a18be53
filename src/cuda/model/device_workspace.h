// The activations of one forward pass on a device: taken once from the limits. Their content means
// nothing between two passes, except the logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "cuda/kernels/paged_attention.h"
#include "cuda/model/device_arena.h"
#include "kernels/quantized/quantized_matrix.h"
#include "model/config.h"
#include "model/runner_checks.h"

namespace millrace::cuda {

// Addresses on the device; T = max_num_batched_tokens, L = max_num_logits. `normed`, `attention`,
// `activation` and `rotated` in tiles of tokens (operand_tiles.h), the others row-major.
struct DeviceWorkspace {
  // Steps with so few tiles of attention cut contexts into splits too: decodes, mostly.
  static constexpr size_t kSplitTilesMax = 64;

  DeviceArena memory;
  float* hidden = nullptr;         // [T, hidden], the residual stream
  uint16_t* normed = nullptr;      // [max(T, L), hidden], bfloat16
  float* qkv = nullptr;            // [T, q_size + 2 * kv_size]
  uint16_t* query = nullptr;       // [T, q_size], bfloat16, rotated
  uint16_t* attention = nullptr;   // [T, q_size], bfloat16
  uint16_t* activation = nullptr;  // [T, intermediate], bfloat16
  float* logits_hidden = nullptr;  // [L, hidden]
  float* logits = nullptr;         // [L, vocab]
  float* head_parts = nullptr;     // [num_head_parts, L, head_size], where the head is shared
  // What quantized matrices multiply: [max(T, L), num_rotated_inputs()], bfloat16. Null: none.
  uint16_t* rotated = nullptr;
  AttentionPartials partials;  // of steps with up to kSplitTilesMax tiles

  // The partials' counters become zero in the stream. kResourceExhausted: the device has not as
  // much.
  static Result<DeviceWorkspace> allocate(
      StreamHandle stream,
      const ModelConfig& config,
      const RunnerLimits& limits,
      std::optional<QuantizedFormat> quantization
  );
  static size_t num_bytes(
      const ModelConfig& config,
      const RunnerLimits& limits,
      std::optional<QuantizedFormat> quantization
  );
};

}  // namespace millrace::cuda
