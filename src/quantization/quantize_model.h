// A model in 8 or 4 bits that answers as it did before: calibrated with texts, smoothed, and
// rounded so that errors make good each other (docs/decisions/0014); or rounded to nearest.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/weight_source.h"
#include "kernels/quantized/quantized_matrix.h"
#include "model/config.h"
#include "model/weights.h"
#include "tensor/dtype.h"

namespace millrace {

struct QuantizeOptions {
  QuantizedFormat format = QuantizedFormat::kInt8;
  DType dtype =
      DType::kBFloat16;  // of the model while it is calibrated, and of its embedding after
  // What the model reads to be calibrated: a few thousand tokens of what it will be used for. None:
  // weights are rounded to nearest. REQUIRES: no empty text, and tokens of its vocabulary.
  std::span<const std::vector<TokenId>> texts;
  // From the calling thread: what is being done, and how much of it is (0 to 1).
  std::function<void(std::string_view phase, double fraction)> on_progress = {};
};

struct QuantizedModel {
  ModelConfig config;  // with a head of its own
  ModelWeights weights;
};

// Whether it can be calibrated: kUnsupported for experts.
Result<void> check_calibratable(const ModelConfig& config);

// Deterministic: the same texts make the same bits, with any number of threads.
// The errors are those of check_calibratable(), of texts, and of CpuModel::load().
Result<QuantizedModel> quantize_model(
    const ModelConfig& config,
    const WeightSource& source,
    const QuantizeOptions& options,
    ThreadPool& pool
);

}  // namespace millrace
