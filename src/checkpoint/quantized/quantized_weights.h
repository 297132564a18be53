// Checkpoints that other tools have quantized, as if they were not: matrices under their plain
// names, of the values that their layout defines. So the rest of the program knows one kind of
// model.
#pragma once

#include <memory>

#include "base/result.h"
#include "checkpoint/quantized/quantization_config.h"
#include "checkpoint/weight_source.h"

namespace millrace {

// `stored`: the tensors of the files. In place of the tensors of each quantized matrix the result
// has one, "<module>.weight", which is read as float32; scales of activations and of KV caches are
// left out, since both stay in 16 bits here; all others are passed on. Every quantized matrix is
// checked, so that reading cannot fail: kNotFound for a part of one that is missing,
// kInvalidArgument for another shape, kUnsupported for another type, `where` is the tensor.
Result<std::unique_ptr<WeightSource>> plain_weights(
    std::unique_ptr<WeightSource> stored, const QuantizationConfig& config
);

}  // namespace millrace
