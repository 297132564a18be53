// Quantized weights as `millrace quantize` keeps them in a file, so that loading is copying. Norms,
// biases, the embedding and routers are tensors as usual; a quantized matrix is one of U8,
// [num_panels, panel_bytes], in the layout of QuantizedMatrix. Names and shapes:
// docs/guides/quantization.md. A layout that changes gets another stored_weights_version().
#pragma once

#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/weight_source.h"
#include "model/config.h"
#include "model/weights.h"

namespace millrace {

// What to write, in the order of the forward pass; borrows `weights`, and `source` for the
// embedding and routers. REQUIRES: quantized weights of that source, with a head of their own.
std::vector<TensorToWrite> stored_tensors(
    const ModelConfig& config, const ModelWeights& weights, const WeightSource& source, DType dtype
);

// Reads them again. The error names the tensor that is missing, has another type or shape, or would
// be left unused. REQUIRES: config.stored_quantization, which is format.quantization.
Result<ModelWeights> load_stored_weights(
    const ModelConfig& config,
    const WeightSource& source,
    const WeightFormat& format,
    ThreadPool& pool,
    const LoadProgress& progress = {}
);

}  // namespace millrace
