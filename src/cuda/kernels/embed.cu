#include "base/check.h"
#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/embed.h"
#include "cuda/kernels/launch_limits.h"

namespace millrace::cuda {
namespace {

constexpr uint32_t kThreads = 128;
constexpr size_t kElements = 8;  // of bfloat16 in sixteen bytes

__device__ void widen_words(const BFloat16Bits* from, float* out) {
  const Words4 pairs = load_words(from);
  Words4 first;
  Words4 second;
  for (uint32_t i = 0; i < 2; ++i) {
    first.words[2 * i] = pairs.words[i] << 16;
    first.words[2 * i + 1] = pairs.words[i] & 0xFFFF0000U;
    second.words[2 * i] = pairs.words[2 + i] << 16;
    second.words[2 * i + 1] = pairs.words[2 + i] & 0xFFFF0000U;
  }
  store_words(out, first);
  store_words(out + 4, second);
}

__global__ void embed_kernel(EmbedArgs args) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const size_t token = blockIdx.x;
  const auto id = static_cast<size_t>(args.token_ids[token]);
  const BFloat16Bits* const from = args.table + id * args.hidden;
  float* const out = args.out + token * args.hidden;
  const size_t num_whole = args.hidden % kElements == 0 ? args.hidden : 0;
  for (size_t i = threadIdx.x * kElements; i < num_whole; i += kThreads * kElements) {
    widen_words(from + i, out + i);
  }
  for (size_t i = num_whole + threadIdx.x; i < args.hidden; i += kThreads) {
    out[i] = float_from_bfloat16(from[i]);
  }
}

}  // namespace

void embed(StreamHandle stream, const EmbedArgs& args) {
  if (args.num_tokens == 0) return;
  CHECK(
      args.token_ids != nullptr && args.table != nullptr && args.out != nullptr, "embed's memory"
  );
  CHECK(args.hidden > 0, "an embedding has columns");
  CHECK(is_aligned(args.table) && is_aligned(args.out), "16-byte memory");
  launch(stream, {.grid = {grid_width(args.num_tokens)}, .block = {kThreads}}, embed_kernel, args);
}

}  // namespace millrace::cuda
