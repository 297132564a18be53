#include "base/check.h"
#include "base/math.h"
#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/copy_blocks.h"
#include "cuda/kernels/launch_limits.h"

namespace millrace::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr size_t kBytes = sizeof(Words4);

// Grid: pieces of a block, planes. A thread does sixteen bytes of every copy, in order, so that the
// order needs no barrier.
__global__ void __launch_bounds__(kThreads) copy_blocks_kernel(CopyBlocksArgs args) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const size_t offset = (static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x) * kBytes;
  if (offset >= args.block_bytes) return;
  auto* const plane = static_cast<unsigned char*>(args.planes) + blockIdx.y * args.plane_bytes;
  for (size_t i = 0; i < args.num_copies; ++i) {
    const BlockCopy copy = args.copies[i];
    const size_t from = static_cast<size_t>(copy.from) * args.block_bytes + offset;
    const size_t to = static_cast<size_t>(copy.to) * args.block_bytes + offset;
    store_words(plane + to, load_words(plane + from));
  }
}

}  // namespace

void copy_blocks(StreamHandle stream, const CopyBlocksArgs& args) {
  if (args.num_copies == 0) return;
  CHECK(args.planes != nullptr && args.copies != nullptr, "copy_blocks' memory");
  CHECK(is_aligned(args.planes) && args.plane_bytes % kBytes == 0, "16-byte memory");
  CHECK(args.block_bytes > 0 && args.block_bytes % kBytes == 0, "blocks of 16-byte pieces");
  launch(
      stream,
      {.grid =
           {grid_width(div_ceil(args.block_bytes, kThreads * kBytes)),
            grid_height(args.num_planes)},
       .block = {kThreads}},
      copy_blocks_kernel,
      args
  );
}

}  // namespace millrace::cuda
