#include "base/check.h"
#include "base/math.h"
#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/operand_tiles.h"
#include "cuda/kernels/rms_norm.cuh"
#include "cuda/kernels/rotate_rows.h"
#include "cuda/kernels/token_columns.cuh"

namespace millrace::cuda {
namespace {

constexpr uint32_t kThreads = 128;
constexpr uint32_t kSizeMax = 1024;                 // of a transform
constexpr uint32_t kColumns = kSizeMax / kThreads;  // of a thread: neighbours, at both ends
static_assert(kColumns == kNormColumns && kColumns == kWordElements);
constexpr uint32_t kBlockElements = kThreads * kColumns;

struct RotateTask {
  uint32_t size;  // of a transform, a power of two
  size_t num_tokens;
  size_t num_inputs;   // of x
  size_t num_rotated;  // num_rotated_inputs()
  BFloat16Bits* out;
};

// Of a value in shared memory: places of one bank are few among those that a warp reads at once.
__device__ uint32_t place_of(uint32_t i) {
  return i + i / 16;
}
constexpr size_t kSharedFloats = kBlockElements + kBlockElements / 16;

// values[j] and values[j + distance] for each pair that a step of the transform has among them.
template <uint32_t kDistance>
__device__ void add_and_subtract(float (&values)[kColumns]) {
#pragma unroll
  for (uint32_t i = 0; i < kColumns / 2; ++i) {
    const uint32_t j = i / kDistance * 2 * kDistance + i % kDistance;
    const float a = values[j];
    const float b = values[j + kDistance];
    values[j] = a + b;
    values[j + kDistance] = a - b;
  }
}

// The transforms of a block's columns, each thread having eight neighbours, before and after. Three
// steps at a time are of values that one thread has. By the whole block.
__device__ void transform(uint32_t size, float (&values)[kColumns]) {
  float* const shared = dynamic_shared<float>(0, kSharedFloats);
  uint32_t first = threadIdx.x * kColumns;  // the thread's, `stride` apart
  uint32_t stride = 1;
  const auto exchange = [&](uint32_t next_first, uint32_t next_stride) {
#pragma unroll
    for (uint32_t i = 0; i < kColumns; ++i) shared[place_of(first + i * stride)] = values[i];
    sync_block();
    first = next_first;
    stride = next_stride;
#pragma unroll
    for (uint32_t i = 0; i < kColumns; ++i) values[i] = shared[place_of(first + i * stride)];
  };
  uint32_t step = size / 2;
  for (; step >= 8; step /= 8) {
    const uint32_t next_stride = step / 4;
    const uint32_t thread = threadIdx.x;
    exchange(thread / next_stride * 2 * step + thread % next_stride, next_stride);
    add_and_subtract<4>(values);
    add_and_subtract<2>(values);
    add_and_subtract<1>(values);
  }
  exchange(threadIdx.x * kColumns, 1);
  if (step >= 4) add_and_subtract<4>(values);
  if (step >= 2) add_and_subtract<2>(values);
  add_and_subtract<1>(values);
}

// Of bfloat16 columns.
__device__ void widen(const Words4& columns, float (&values)[kColumns]) {
#pragma unroll
  for (uint32_t i = 0; i < kColumns; ++i) {
    const uint32_t pair = columns.words[i / 2];
    values[i] = i % 2 == 0 ? lower_bfloat16(pair) : upper_bfloat16(pair);
  }
}

__device__ void rotate_and_store(const RotateTask& task, size_t column, const Words4& columns) {
  float values[kColumns];
  widen(columns, values);
  transform(task.size, values);
  if (column >= task.num_rotated) return;
  Words4 result;
#pragma unroll
  for (uint32_t i = 0; i < kColumns; i += 2) {
    result.words[i / 2] = bfloat16_pair(values[i], values[i + 1]);
  }
  store_token_columns(task.out, blockIdx.x, column, task.num_rotated, task.num_tokens, result);
}

// Columns [column, column + 8) of a token; zero beyond its end, where padding is.
__device__ Words4 load_token_columns(
    const BFloat16Bits* x, size_t token, size_t column, size_t width, size_t num_tokens
) {
  Words4 result;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    const size_t at = column + i * 2;
    uint32_t word = at < width ? load_word(x + token_element(token, at, width, num_tokens)) : 0;
    if (at + 1 == width) word &= 0xFFFFU;
    result.words[i] = word;
  }
  return result;
}

__device__ size_t first_column() {
  return static_cast<size_t>(blockIdx.y) * kBlockElements + threadIdx.x * kColumns;
}

// Grid: tokens, blocks of columns.
__global__ void __launch_bounds__(kThreads) rotate_kernel(RotateTask task, const BFloat16Bits* x) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const size_t column = first_column();
  rotate_and_store(
      task, column, load_token_columns(x, blockIdx.x, column, task.num_inputs, task.num_tokens)
  );
}

// The same of what is normed before; every block of a token sums its squares.
template <bool kIsWhole>
__global__ void __launch_bounds__(kThreads) normed_kernel(RotateTask task, RmsNormArgs norm) {
  constexpr uint32_t kSumsOfWarp = kNormWarps / (kThreads / kWarpThreads);
  allow_next_kernel();
  const size_t column = first_column();
  float weights[kColumns];
  load_columns<kIsWhole>(norm.weight, column, norm.hidden, weights);
  wait_for_previous_kernel();
  const float* const row = norm.x + blockIdx.x * norm.hidden;
  float values[kColumns];
  load_columns<kIsWhole>(row, column, norm.hidden, values);
  float* const sums = dynamic_shared<float>(kSharedFloats * sizeof(float), kNormWarps);
#pragma unroll
  for (uint32_t i = 0; i < kSumsOfWarp; ++i) {
    const uint32_t warp = warp_index() * kSumsOfWarp + i;
    const float sum = sum_of_norm_warp<kIsWhole>(row, norm.hidden, warp);
    if (lane_index() == 0) sums[warp] = sum;
  }
  sync_block();
  float sum = sums[0];
#pragma unroll
  for (uint32_t warp = 1; warp < kNormWarps; ++warp) sum += sums[warp];
  const float factor = inverse_rms(sum, norm.hidden, norm.eps);
  rotate_and_store(task, column, normed_columns(values, weights, factor));
}

// rotation_size() of kernels/quantized/encode_rows.h, without its library: what runs on a device
// needs nothing of what runs beside it.
uint32_t transform_size(size_t num_inputs) {
  uint32_t size = kSizeMax;
  while (num_rotated_inputs(num_inputs) % size != 0) size /= 2;
  return size;
}

RotateTask task_of(const RotateRowsArgs& args) {
  CHECK(args.x != args.out && args.out != nullptr, "memory for rotated rows");
  CHECK(args.num_inputs > 0, "a row has inputs");
  return {
      .size = transform_size(args.num_inputs),
      .num_tokens = args.num_tokens,
      .num_inputs = args.num_inputs,
      .num_rotated = num_rotated_inputs(args.num_inputs),
      .out = args.out};
}

LaunchShape shape_of(const RotateTask& task) {
  return {
      .grid =
          {grid_width(task.num_tokens),
           grid_height(div_ceil(task.num_rotated, size_t{kBlockElements}))},
      .block = {kThreads},
      .num_shared_bytes = (kSharedFloats + kNormWarps) * sizeof(float)};
}

}  // namespace

size_t num_rotated_inputs(size_t num_inputs) {
  return num_chunks_of(num_inputs) * kChunkInputs;
}

void rotate_rows(StreamHandle stream, const RotateRowsArgs& args) {
  if (args.num_tokens == 0) return;
  CHECK(args.x != nullptr, "rotate_rows' memory");
  const RotateTask task = task_of(args);
  launch(stream, shape_of(task), rotate_kernel, task, args.x);
}

void rotate_normed(StreamHandle stream, const RmsNormArgs& norm, uint16_t* rotated) {
  if (norm.num_tokens == 0) return;
  const RotateRowsArgs args = {
      .x = norm.out, .num_tokens = norm.num_tokens, .num_inputs = norm.hidden, .out = rotated};
  if (norm.num_tokens > kFewTokens) {
    rms_norm(stream, norm);
    return rotate_rows(stream, args);
  }
  CHECK(norm.x != nullptr && norm.weight != nullptr, "rotate_normed's memory");
  CHECK(is_aligned(norm.x) && is_aligned(norm.weight), "16-byte memory");
  const RotateTask task = task_of(args);
  norm.hidden % kColumns == 0 ? launch(stream, shape_of(task), normed_kernel<true>, task, norm)
                              : launch(stream, shape_of(task), normed_kernel<false>, task, norm);
}

}  // namespace millrace::cuda
