// Quantized weights of a dense decoder on a device: matrices of the layers in the format that was
// asked for, the output head in 8 bits, with the processor's codes in the device's order
// (code_tiles.h); the embedding bfloat16, of which rows are looked up.
//
// They are made, or read again, by the processor's own load_weights() or load_stored_weights(), and
// all of them are in its memory until they are copied.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/weight_source.h"
#include "cuda/model/device_weights.h"
#include "cuda/stream.h"
#include "model/config.h"

namespace millrace::cuda {

size_t quantized_device_weight_bytes(const ModelConfig& config, QuantizedFormat format);

// load_device_weights(). REQUIRES: options.quantization, which is how weights are stored that are
// stored quantized.
Result<DeviceWeights> load_quantized_device_weights(
    const ModelConfig& config,
    const WeightSource& source,
    const DeviceWeightOptions& options,
    StreamHandle stream,
    ThreadPool& pool
);

}  // namespace millrace::cuda
