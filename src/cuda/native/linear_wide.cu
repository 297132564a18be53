#include "base/check.h"
#include "base/math.h"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/linear_task.cuh"
#include "cuda/kernels/linear_wide.h"
#include "wide_block.cuh"

namespace millrace::cuda {
namespace {

static_assert(kPanelsOfBlock == kGroupPanels);
constexpr uint32_t kWeightBytes = kWeightChunkElements * 2;  // of a chunk

// kTokens: of a block. Chunks in shared memory, first the weights of each, then the tokens.
template <uint32_t kTokens>
struct Stages {
  static constexpr uint32_t kCount = kTokens == 256 ? 4 : 6;
  static constexpr uint32_t kBytes = kWeightBytes + kTokens / kTileTokens * kTileBytes;  // of one
  static constexpr size_t kNumBytes = size_t{kCount} * kBytes + ring_bytes(kCount);
};

#if MILLRACE_HAS_WGMMA

// Chunks on their way through shared memory: filled by one warp, read by the others.
template <uint32_t kTokens>
class OperandStages {
 public:
  using Size = Stages<kTokens>;

  __device__ OperandStages()
      : stages_(dynamic_shared<unsigned char>(0, Size::kCount * Size::kBytes)),
        ring_(size_t{Size::kCount} * Size::kBytes) {}

  __device__ const StageRing<Size::kCount>& ring() const { return ring_; }

  // By one thread.
  __device__ void fill(const LinearTask& task, size_t weight_group, size_t first_token) const {
    constexpr uint32_t kCopyTokens = kTokens < kGroupTokens ? kTokens : kGroupTokens;
    const size_t last_group = (task.args.num_tokens - 1) / kGroupTokens;
    for (size_t chunk = 0; chunk < task.num_chunks; ++chunk) {
      uint64_t* const filled = ring_.begin_filling(chunk, Size::kBytes);
      copy_to_shared(
          stage(chunk),
          task.weights() + (weight_group * task.num_chunks + chunk) * kWeightChunkElements,
          kWeightBytes,
          filled
      );
      for (uint32_t i = 0; i < kTokens; i += kCopyTokens) {
        // Beyond the last group: the last one again, whose sums nobody stores.
        const size_t group = smaller_size((first_token + i) / kGroupTokens, last_group);
        const size_t tile = first_token % kGroupTokens / kTileTokens;
        copy_to_shared(
            stage(chunk) + kWeightBytes + i / kTileTokens * kTileBytes,
            task.args.x + (group * task.num_chunks + chunk) * kGroupChunkElements +
                tile * kTileChunkElements,
            kCopyTokens / kTileTokens * kTileBytes,
            filled
        );
      }
    }
  }

  // A lane's words of a step of its warp's panel.
  __device__ Words4 weights(size_t chunk, uint32_t step) const {
    const uint32_t tile = warp_index() * kChunkSteps + step;
    return load_words(
        stage(chunk) + tile * (kWeightTileElements * 2) + lane_index() * sizeof(Words4)
    );
  }
  // Of a chunk's first step.
  __device__ uint64_t token_descriptor(size_t chunk) const {
    return matrix_descriptor(stage(chunk) + kWeightBytes, kCoreElements * 2, kTileBytes);
  }

 private:
  __device__ unsigned char* stage(size_t chunk) const {
    return stages_ + ring_.stage_of(chunk) * Size::kBytes;
  }

  unsigned char* stages_;
  StageRing<Size::kCount> ring_;
};

// The product of a warp's panel and a block's tokens. kHasParts: the inputs are summed in parts.
//
// Weights go from shared memory to registers while the chunk before is multiplied: loads from
// global memory, however far ahead, would all be waited for where a group of products begins.
template <uint32_t kTokens, bool kHasParts>
class PanelProduct {
 public:
  static constexpr uint32_t kTiles = kTokens / kTileTokens;

  __device__ PanelProduct(const LinearTask& task, const OperandStages<kTokens>& stages)
      : task_(task), stages_(stages) {}

  // `result`: zeros, then the sums. `sums`: zeros, of a part; the same array where there is one.
  __device__ void run(float (&sums)[kTiles][4], float (&result)[kTiles][4]) {
    Words4 even[kChunkSteps];
    Words4 odd[kChunkSteps];
    load_weights(0, even);
    for (size_t chunk = 0; chunk < task_.num_chunks; chunk += 2) {
      add_chunk(chunk, even, odd, sums, result);
      if (chunk + 1 < task_.num_chunks) add_chunk(chunk + 1, odd, even, sums, result);
    }
    wait_for_sums(sums);
  }

 private:
  __device__ void load_weights(size_t chunk, Words4 (&weights)[kChunkSteps]) const {
    stages_.ring().wait_for_chunk(chunk);
#pragma unroll
    for (uint32_t i = 0; i < kChunkSteps; ++i) weights[i] = stages_.weights(chunk, i);
  }

  // `own` are the chunk's weights; `next` become those of the one after it.
  __device__ void add_chunk(
      size_t chunk,
      const Words4 (&own)[kChunkSteps],
      Words4 (&next)[kChunkSteps],
      float (&sums)[kTiles][4],
      float (&result)[kTiles][4]
  ) {
    const uint64_t tokens = stages_.token_descriptor(chunk);
    begin_products();
#pragma unroll
    for (uint32_t i = 0; i < kChunkSteps; ++i) {
      multiply_wide(sums, own[i].words, tokens + i * kDescriptorStep);
    }
    end_products();
    // The chunk before is done with: its tokens, and its weights, which `next` were.
    wait_for_products<1>();
    if (chunk > 0) stages_.ring().release(chunk - 1);
    if (chunk + 1 < task_.num_chunks) load_weights(chunk + 1, next);
    if (kHasParts) end_part(chunk, sums, result);
  }

  // After a part's last chunk: its sums are added to those before it.
  __device__ void end_part(size_t chunk, float (&sums)[kTiles][4], float (&result)[kTiles][4]) {
    if (chunk + 1 != task_.part_begin(part_ + 1)) return;
    wait_for_sums(sums);
#pragma unroll
    for (uint32_t i = 0; i < kTiles * 4; ++i) {
      float& sum = sums[i / 4][i % 4];
      float& all = result[i / 4][i % 4];
      all = part_ == 0 ? sum : all + sum;
      sum = 0.0F;
    }
    ++part_;
  }

  const LinearTask& task_;
  const OperandStages<kTokens>& stages_;
  uint32_t part_ = 0;
};

#endif  // MILLRACE_HAS_WGMMA

// Grid: blocks of tokens, which share weights and so lie side by side; of panels.
template <uint32_t kTokens, bool kHasParts>
__global__ void __launch_bounds__(kThreads, 1)
    wide_kernel(const __grid_constant__ LinearTask task) {
#if MILLRACE_HAS_WGMMA
  const OperandStages<kTokens> stages;
  if (threadIdx.x == 0) stages.ring().create(1);
  sync_block();
  allow_next_kernel();
  if (warp_index() >= kProductWarps) {
    give_registers<kCopyRegisters>();
    wait_for_previous_kernel();
    if (threadIdx.x == kProductWarps * kWarpThreads) {
      stages.fill(task, blockIdx.y, static_cast<size_t>(blockIdx.x) * kTokens);
    }
    return;
  }
  take_registers<kProductRegisters>();
  wait_for_previous_kernel();
  const uint32_t panel = blockIdx.y * kPanelsOfBlock + warp_index();
  using Product = PanelProduct<kTokens, kHasParts>;
  float sums[Product::kTiles][4] = {};
  if (kHasParts) {
    float of_part[Product::kTiles][4] = {};
    Product(task, stages).run(of_part, sums);
  } else {
    Product(task, stages).run(sums, sums);
  }
  if (panel < task.num_panels) finish(task, panel, sums);
#endif
}

template <uint32_t kTokens, bool kHasParts>
void launch_wide(StreamHandle stream, const LinearTask& task) {
  launch(
      stream,
      {.grid =
           {grid_width(div_ceil(task.args.num_tokens, size_t{kTokens})),
            grid_height(div_ceil(size_t{task.num_panels}, size_t{kPanelsOfBlock}))},
       .block = {kThreads},
       .num_shared_bytes = Stages<kTokens>::kNumBytes},
      wide_kernel<kTokens, kHasParts>,
      task
  );
}

// Tokens of a block: those with which the device is done first, as blocks come in rounds of one for
// each multiprocessor. A block of fewer tokens takes less time, and more of it for each token, as
// it loads its weights all the same: measured, 64 take about half of what 256 take.
template <bool kHasParts>
void launch_fastest(StreamHandle stream, const LinearTask& task) {
  const size_t of_64 = wide_cost(task, 64, 10);
  const size_t of_128 = wide_cost(task, 128, 14);
  if (!kHasParts && wide_cost(task, 256, 20) < (of_64 < of_128 ? of_64 : of_128)) {
    return launch_wide<256, false>(stream, task);
  }
  of_64 < of_128 ? launch_wide<64, kHasParts>(stream, task)
                 : launch_wide<128, kHasParts>(stream, task);
}

}  // namespace

bool is_for_linear_wide(const LinearTask& task) {
  return task.args.num_tokens >= kTokensMin && task.args.num_inputs % kChunkInputs == 0 &&
         is_hopper();
}

void linear_wide(StreamHandle stream, const LinearTask& task) {
  task.num_parts() > 1 ? launch_fastest<true>(stream, task) : launch_fastest<false>(stream, task);
}

}  // namespace millrace::cuda
