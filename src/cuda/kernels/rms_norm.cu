#include "base/check.h"
#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/rms_norm.h"

namespace millrace::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kColumns = 4;  // of float32 in sixteen bytes

// Columns [column, column + 4) of a row; zero beyond its end.
__device__ void load_columns(
    const float* row, size_t column, size_t hidden, bool is_whole, float (&values)[kColumns]
) {
  if (is_whole) {
    const Words4 words = load_words(row + column);
    for (uint32_t i = 0; i < kColumns; ++i) values[i] = float_from_bits(words.words[i]);
    return;
  }
  for (uint32_t i = 0; i < kColumns; ++i) values[i] = column + i < hidden ? row[column + i] : 0.0F;
}

__global__ void __launch_bounds__(kThreads) rms_norm_kernel(RmsNormArgs args) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const size_t hidden = args.hidden;
  const float* const x = args.x + blockIdx.x * hidden;
  BFloat16Bits* const out = args.out + blockIdx.x * hidden;
  const bool is_whole = hidden % kColumns == 0;

  float sum = 0.0F;
  for (size_t column = threadIdx.x * kColumns; column < hidden; column += kThreads * kColumns) {
    float values[kColumns];
    load_columns(x, column, hidden, is_whole, values);
    for (const float value : values) sum = fused_multiply_add(value, value, sum);
  }
  sum = sum_over_block(sum, dynamic_shared<float>(0, num_warps()));
  const float mean = sum / static_cast<float>(hidden);
  const float factor = 1.0F / square_root(mean + args.eps);

  for (size_t column = threadIdx.x * kColumns; column < hidden; column += kThreads * kColumns) {
    float values[kColumns];
    float weights[kColumns];
    load_columns(x, column, hidden, is_whole, values);
    load_columns(args.weight, column, hidden, is_whole, weights);
    for (uint32_t i = 0; i < kColumns; ++i) {
      if (column + i < hidden)
        out[column + i] = bfloat16_from_float(values[i] * factor * weights[i]);
    }
  }
}

}  // namespace

void rms_norm(StreamHandle stream, const RmsNormArgs& args) {
  if (args.num_tokens == 0) return;
  CHECK(args.x != nullptr && args.weight != nullptr && args.out != nullptr, "rms_norm's memory");
  CHECK(args.hidden > 0, "a row has columns");
  CHECK(is_aligned(args.x) && is_aligned(args.weight), "16-byte memory");
  launch(
      stream,
      {.grid = {grid_width(args.num_tokens)},
       .block = {kThreads},
       .num_shared_bytes = kThreads / kWarpThreads * sizeof(float)},
      rms_norm_kernel,
      args
  );
}

}  // namespace millrace::cuda
