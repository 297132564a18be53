#include "base/check.h"
#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/embed.h"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/operand_tiles.h"

namespace millrace::cuda {
namespace {

constexpr uint32_t kThreads = 128;

// Grid: tokens. A thread widens pairs of neighbours.
__global__ void __launch_bounds__(kThreads) embed_kernel(EmbedArgs args) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const size_t token = blockIdx.x;
  const auto id = static_cast<size_t>(args.token_ids[token]);
  float* const out = args.out + token * args.hidden;
  for (size_t i = size_t{threadIdx.x} * 2; i < args.hidden; i += size_t{kThreads} * 2) {
    const uint32_t pair = load_word(args.table + weight_element(id, i, args.hidden));
    out[i] = lower_bfloat16(pair);
    if (i + 1 < args.hidden) out[i + 1] = upper_bfloat16(pair);
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
