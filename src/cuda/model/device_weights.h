// The weights of a dense decoder on a device: matrices bfloat16 [N, K] in the layout that linear()
// multiplies (operand_tiles.h), q, k and v one below the other, gate and up eight rows in turn; or
// quantized (quantized_device_weights.h). Norms and biases
// float32. Copied once at load, then read-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/weight_source.h"
#include "cuda/model/device_arena.h"
#include "cuda/stream.h"
#include "kernels/quantized/quantized_matrix.h"
#include "model/config.h"
#include "model/weights.h"

namespace millrace::cuda {

// A matrix and the bias of its product: addresses on the device.
struct DeviceMatrix {
  // [num_rows, num_inputs], packed: bfloat16 (operand_tiles.h), or codes (code_tiles.h).
  const void* data = nullptr;
  std::optional<QuantizedFormat> format = {};  // none: bfloat16
  size_t num_rows = 0;                         // of the checkpoint's tensors: not of padding
  size_t num_inputs = 0;
  const float* bias = nullptr;  // [num_rows]; null: none
};

// Addresses on the device. Null: the model has none.
struct DeviceLayer {
  const float* attention_norm = nullptr;  // [hidden]
  DeviceMatrix qkv;                       // [q_size + 2 * kv_size, hidden]
  const float* q_norm = nullptr;          // [head_dim]
  const float* k_norm = nullptr;          // [head_dim]
  DeviceMatrix attention_out;             // [hidden, q_size]
  const float* mlp_norm = nullptr;        // [hidden]
  DeviceMatrix gate_up;                   // [2 * intermediate, hidden]
  DeviceMatrix down;                      // [hidden, intermediate]
};

struct DeviceWeights {
  DeviceArena memory;
  const uint16_t* embedding = nullptr;  // [vocab, hidden], bfloat16, packed
  // [vocab, hidden]; the embedding, where they are tied and nothing is quantized.
  DeviceMatrix lm_head;
  const float* final_norm = nullptr;  // [hidden]
  std::vector<DeviceLayer> layers;
};

// How matrices are kept: as asked for, else as they are stored; none: bfloat16. kInvalidArgument
// for weights that are stored in another format.
Result<std::optional<QuantizedFormat>> device_quantization(
    const ModelConfig& config, std::optional<QuantizedFormat> asked
);

// What load_device_weights() takes of the device. `quantization`: of device_quantization().
size_t device_weight_bytes(const ModelConfig& config, std::optional<QuantizedFormat> quantization);

struct DeviceWeightOptions {
  std::optional<QuantizedFormat> quantization = {};  // of device_quantization()
  LoadProgress progress = {};
};

// Reads every tensor, rounds matrices to bfloat16 (what is stored so is copied) or to what is asked
// for, and copies them into the stream, with `pool` to convert; returns when all of it is there.
// Refuses what check_tensors() or load_stored_weights() refuses. kResourceExhausted for memory of
// the device or of the host. REQUIRES: a dense model.
Result<DeviceWeights> load_device_weights(
    const ModelConfig& config,
    const WeightSource& source,
    const DeviceWeightOptions& options,
    StreamHandle stream,
    ThreadPool& pool
);

}  // namespace millrace::cuda
