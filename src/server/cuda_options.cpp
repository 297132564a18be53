#include "server/cuda_options.h"

#include <fmt/format.h>

namespace millrace {
namespace {

Result<void> check_dtype(const char* flag, std::optional<DType> dtype) {
  if (!dtype || *dtype == DType::kBFloat16) return {};
  return unsupported(
      fmt::format("{} {}: on a CUDA device it is bfloat16 so far", flag, name_of(*dtype)), flag
  );
}

}  // namespace

Result<cuda::CudaRunnerOptions> cuda_options_of(
    const LocalModelOptions& options, int32_t max_model_len
) {
  Result<void> done = check_dtype("--dtype", options.dtype);
  if (!done) return done.error();
  if (done = check_dtype("--kv-cache-dtype", options.kv_dtype); !done) return done.error();
  // int8 and w8a8 have the same weights, and what those multiply on a device is bfloat16.
  std::optional<QuantizedFormat> quantization;
  if (options.quantization) quantization = options.quantization->format;
  if (options.quantization && options.quantization->keeps_codes()) {
    return unsupported("--quantization stored is for processors alone", "--quantization");
  }
  return cuda::CudaRunnerOptions{
      .limits =
          {.block_size = options.block_size,
           .max_model_len = max_model_len,
           .max_num_batched_tokens = options.engine.max_num_batched_tokens,
           .max_num_logits = options.engine.max_logit_rows},
      .gpu_memory_utilization = options.gpu_memory_utilization,
      .kv_cache_bytes = options.kv_cache_bytes,
      .use_graphs = !options.enforce_eager,
      .quantization = quantization,
  };
}

}  // namespace millrace
