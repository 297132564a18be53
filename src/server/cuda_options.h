// What of a model's options a CUDA device takes, and what it refuses by name.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "cuda/cuda_runner.h"
#include "server/local_model.h"

namespace millrace {

// `max_model_len`: tokens of the longest sequence. kUnsupported for a type of weights or of the KV
// cache that no kernel is for yet; the error's `where` is the flag.
Result<cuda::CudaRunnerOptions> cuda_options_of(
    const LocalModelOptions& options, int32_t max_model_len
);

}  // namespace millrace
