// The weights that a warp of linear() multiplies, on their way from memory.
#pragma once

#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/linear_task.cuh"
#include "cuda/kernels/operand_tiles.h"
#include "cuda/kernels/product_blocks.h"

namespace millrace::cuda {

constexpr uint32_t kStageWords = kStageBytes / sizeof(Words4);

// What a warp does: a part of some panels, one after the other. Panels go round the blocks first,
// so that multiprocessors differ by one of them at most.
struct WarpPlace {
  uint32_t part;
  uint32_t first_panel;
  uint32_t panel_stride;

  __device__ explicit WarpPlace(uint32_t num_parts_log2)
      : part(warp_index() & ((1U << num_parts_log2) - 1)),
        first_panel((warp_index() >> num_parts_log2) * gridDim.y + blockIdx.y),
        panel_stride((num_warps() >> num_parts_log2) * gridDim.y) {}
};

// The weights of a warp's part of its panels on their way through shared memory, chunk by chunk,
// kNumStages of them. A lane copies what it reads itself, so that nobody waits for another.
template <uint32_t kNumStages>
class WeightStream {
 public:
  // Asks for the first weights, which no kernel writes, so before any is waited for.
  __device__ WeightStream(const LinearTask& task, const WarpPlace& place)
      : task_(task),
        place_(place),
        begin_(task.part_begin(place.part)),
        num_chunks_(task.part_begin(place.part + 1) - begin_),
        panel_(place.first_panel),
        num_left_(num_chunks_),
        from_(first_of_panel()),
        stages_(
            dynamic_shared<Words4>(0, num_warps() * kNumStages * kStageWords) +
            warp_index() * (kNumStages * kStageWords) + lane_index()
        ) {
#pragma unroll 1
    for (uint32_t i = 0; i + 1 < kNumStages; ++i) ask();
  }

  // The part's first chunk, and how many it has of each panel.
  __device__ uint32_t begin() const {
    return begin_;
  }
  __device__ uint32_t num_chunks() const {
    return num_chunks_;
  }

  // The next chunk; and asks for one more.
  __device__ void take(Words4 (&weights)[kChunkSteps]) {
    wait_for_copies<kNumStages - 2>();
    const Words4* const from = stages_ + taken_;
#pragma unroll
    for (uint32_t i = 0; i < kChunkSteps; ++i) weights[i] = load_words(from + i * kWarpThreads);
    taken_ = next_stage(taken_);
    ask();
  }

 private:
  // For the chunk after the last one asked for; nothing beyond the last panel.
  __device__ void ask() {
    if (panel_ < task_.num_panels) {
      Words4* const to = stages_ + asked_;
#pragma unroll
      for (uint32_t i = 0; i < kChunkSteps; ++i) {
        copy_streaming(to + i * kWarpThreads, from_ + i * kWeightTileElements);
      }
      from_ += kWeightChunkElements;
      if (--num_left_ == 0) {
        panel_ += place_.panel_stride;
        num_left_ = num_chunks_;
        from_ = first_of_panel();
      }
    }
    asked_ = next_stage(asked_);
    end_copies();
  }

  __device__ const BFloat16Bits* first_of_panel() const {
    const uint32_t chunk = panel_ / kGroupPanels * task_.num_chunks + begin_;
    return task_.weights() + size_t{chunk} * kWeightChunkElements +
           panel_ % kGroupPanels * (kChunkSteps * kWeightTileElements) +
           lane_index() * kWordElements;
  }
  __device__ static uint32_t next_stage(uint32_t stage) {
    return stage == (kNumStages - 1) * kStageWords ? 0 : stage + kStageWords;
  }

  const LinearTask& task_;
  const WarpPlace& place_;
  uint32_t begin_;
  uint32_t num_chunks_;
  uint32_t panel_;     // of the next chunk to ask for
  uint32_t num_left_;  // of the panel
  const BFloat16Bits* from_;
  Words4* stages_;
  uint32_t asked_ = 0;  // the stage of the next
  uint32_t taken_ = 0;
};

}  // namespace millrace::cuda
