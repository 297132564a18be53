#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/linear_task.cuh"
#include "cuda/kernels/linear_wide.h"
#include "wide_block.cuh"

namespace millrace::cuda {
namespace {

constexpr uint32_t kWeightBytes = kWeightChunkElements * 2;  // of a chunk

// A block's tile has kTokens tokens. What it has in shared memory: stages of a chunk each, of which
// first the weights, then the tokens; the ring's barriers; and, where the inputs are summed in
// parts (kHasParts), what there are no registers for of the totals over those before.
template <uint32_t kTokens, bool kHasParts>
struct WideBlock {
  static constexpr uint32_t kTiles = kTokens / kTileTokens;
  static constexpr uint32_t kSharedTiles = kHasParts && kTokens == 256 ? kTiles / 2 : 0;
  static constexpr uint32_t kCount = kTokens < 192 ? 6 : kSharedTiles == 0 ? 4 : 3;
  static constexpr uint32_t kStageBytes = kWeightBytes + kTiles * kTileBytes;
  // As large as all blocks of tokens begin at a multiple of.
  static constexpr uint32_t kCopyTokens = kTokens % kGroupTokens == 0 ? kGroupTokens : 64;

  static constexpr size_t kRingBegin = size_t{kCount} * kStageBytes;
  static constexpr size_t kTotalsBegin = kRingBegin + ring_bytes(kCount);
  static constexpr size_t kNumBytes =
      kTotalsBegin + size_t{kProductWarps} * kWarpThreads * kSharedTiles * sizeof(Words4);
};

#if MILLRACE_HAS_WGMMA

// Chunks on their way through shared memory: filled by one thread, read by the warps that multiply.
template <class Block>
class OperandStages {
 public:
  using Place = RingPlace<Block::kCount>;

  __device__ OperandStages()
      : stages_(dynamic_shared<unsigned char>(0, Block::kCount * Block::kStageBytes)),
        ring_(Block::kRingBegin) {}

  __device__ const StageRing<Block::kCount>& ring() const { return ring_; }

  // By one thread: all chunks of the block's tiles. The first weights are asked for before the
  // kernel before has ended.
  __device__ void fill(const LinearTask& task, WideTiles<Block::kTiles * kTileTokens> tiles) const {
    const uint32_t num_ahead = Block::kCount < task.num_chunks ? Block::kCount : task.num_chunks;
    Place place;
    for (uint32_t i = 0; i < num_ahead; ++i, place = place.next()) {
      copy_weights(task, tiles.tile(), i, place);
    }
    wait_for_previous_kernel();
    place = {};
    for (uint32_t i = 0; i < num_ahead; ++i, place = place.next()) {
      copy_tokens(task, tiles.tile(), i, place);
    }
    for (uint32_t chunk = num_ahead; tiles.has_tile(); tiles.go_on(), chunk = 0) {
      const WideTile tile = tiles.tile();
      for (; chunk < task.num_chunks; ++chunk, place = place.next()) {
        copy_weights(task, tile, chunk, place);
        copy_tokens(task, tile, chunk, place);
      }
    }
  }

  // A lane's words of a step of its warp's panel.
  __device__ Words4 weights(const Place& place, uint32_t step) const {
    const uint32_t tile = warp_index() * kChunkSteps + step;
    return load_words(
        stage(place) + tile * (kWeightTileElements * 2) + lane_index() * sizeof(Words4)
    );
  }
  // Of a chunk's first step.
  __device__ uint64_t token_descriptor(const Place& place) const {
    return matrix_descriptor(stage(place) + kWeightBytes, kCoreElements * 2, kTileBytes);
  }

 private:
  __device__ void copy_weights(
      const LinearTask& task, const WideTile& tile, uint32_t chunk, const Place& place
  ) const {
    ring_.begin_filling(place, Block::kStageBytes);
    const size_t piece = size_t{tile.weight_group} * task.num_chunks + chunk;
    copy_to_shared(
        stage(place),
        task.weights() + piece * kWeightChunkElements,
        kWeightBytes,
        ring_.filled(place)
    );
  }
  __device__ void copy_tokens(
      const LinearTask& task, const WideTile& tile, uint32_t chunk, const Place& place
  ) const {
    constexpr uint32_t kCopyTiles = Block::kCopyTokens / kTileTokens;
    constexpr uint32_t kGroupTiles = kGroupTokens / kTileTokens;
    const uint32_t last_group = (task.num_tokens - 1) / kGroupTokens;
#pragma unroll
    for (uint32_t i = 0; i < Block::kTiles; i += kCopyTiles) {
      // Beyond the last group: the last one again, whose sums nobody stores.
      const uint32_t first = tile.first_token_tile + i;
      const uint32_t own_group = first / kGroupTiles;
      const size_t group = own_group < last_group ? own_group : last_group;
      copy_to_shared(
          stage(place) + kWeightBytes + i * kTileBytes,
          task.args.x + (group * task.num_chunks + chunk) * kGroupChunkElements +
              first % kGroupTiles * kTileChunkElements,
          kCopyTiles * kTileBytes,
          ring_.filled(place)
      );
    }
  }

  __device__ unsigned char* stage(const Place& place) const {
    return stages_ + place.stage * Block::kStageBytes;
  }

  unsigned char* stages_;
  StageRing<Block::kCount> ring_;
};

constexpr float kNothing = -0.0F;  // what changes no sum

// The products of a warp's panels and the tokens of its block's tiles.
//
// Weights go from shared memory to registers, half a chunk at a time, while the half before is
// multiplied: loads from global memory, however far ahead, would all be waited for where a group of
// products begins.
template <class Block, bool kHasParts>
class PanelProduct {
 public:
  using Place = RingPlace<Block::kCount>;
  static constexpr uint32_t kTiles = Block::kTiles;

  __device__ PanelProduct(const LinearTask& task, const OperandStages<Block>& stages)
      : task_(task),
        stages_(stages),
        shared_totals_(
            dynamic_shared<Words4>(
                Block::kTotalsBegin, size_t{Block::kSharedTiles} * kProductWarps * kWarpThreads
            ) +
            threadIdx.x
        ) {}

  // Of the next tile. `sums`: zeros, then the sums.
  __device__ void run(float (&sums)[kTiles][4]) {
    num_left_ = task_.num_chunks;
    stages_.ring().wait_for_chunk(place_);
    load_weights(place_, 0, first_);
    if constexpr (kHasParts) {
      add_parts(sums);
    } else {
      add_chunks(num_left_, sums);
    }
  }

 private:
  static constexpr uint32_t kHalfSteps = kChunkSteps / 2;
  static constexpr uint32_t kOwnTiles = kTiles - Block::kSharedTiles;

  __device__ void load_weights(
      const Place& place, uint32_t first_step, Words4 (&weights)[kHalfSteps]
  ) const {
#pragma unroll
    for (uint32_t i = 0; i < kHalfSteps; ++i) weights[i] = stages_.weights(place, first_step + i);
  }

  __device__ void multiply(
      uint32_t first_step, const Words4 (&weights)[kHalfSteps], float (&sums)[kTiles][4]
  ) const {
    const uint64_t tokens = stages_.token_descriptor(place_) + first_step * kDescriptorStep;
    begin_products();
#pragma unroll
    for (uint32_t i = 0; i < kHalfSteps; ++i) {
      multiply_wide(sums, weights[i].words, tokens + i * kDescriptorStep);
    }
    end_products();
  }

  // The next so many.
  __device__ void add_chunks(uint32_t count, float (&sums)[kTiles][4]) {
    Place before;
#pragma unroll 1
    for (uint32_t i = 0; i < count; ++i) {
      multiply(0, first_, sums);
      // The chunk before is done with.
      wait_for_products<1>();
      if (i > 0) stages_.ring().release(before);
      load_weights(place_, kHalfSteps, second_);
      multiply(kHalfSteps, second_, sums);
      wait_for_products<1>();
      before = place_;
      place_ = place_.next();
      if (--num_left_ == 0) break;
      stages_.ring().wait_for_chunk(place_);
      load_weights(place_, 0, first_);
    }
    wait_for_sums(sums);
    stages_.ring().release(before);
  }

  // All of the tile's, in parts.
  __device__ void add_parts(float (&sums)[kTiles][4]) {
    float totals[kOwnTiles][4];
#pragma unroll
    for (uint32_t i = 0; i < kOwnTiles * 4; ++i) totals[i / 4][i % 4] = kNothing;
    const uint32_t last = task_.num_parts() - 1;
#pragma unroll 1
    for (uint32_t part = 0; part < last; ++part) {
      add_chunks(task_.part_begin(part + 1) - task_.part_begin(part), sums);
      add_to_totals(part, totals, sums);
    }
    add_chunks(task_.num_chunks - task_.part_begin(last), sums);
    add_totals(totals, sums);
  }

  // A part's sums to those of all before it, some of which wait in shared memory.
  __device__ void add_to_totals(
      uint32_t part, float (&totals)[kOwnTiles][4], float (&sums)[kTiles][4]
  ) const {
#pragma unroll
    for (uint32_t i = 0; i < kOwnTiles * 4; ++i) totals[i / 4][i % 4] += sums[i / 4][i % 4];
#pragma unroll
    for (uint32_t tile = kOwnTiles; tile < kTiles; ++tile) {
      Words4* const total = shared_total(tile);
      Words4 words = part > 0 ? load_words(total) : Words4{};
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const float before = part > 0 ? float_from_bits(words.words[i]) : kNothing;
        words.words[i] = bits_from_float(before + sums[tile][i]);
      }
      store_words(total, words);
    }
#pragma unroll
    for (uint32_t i = 0; i < kTiles * 4; ++i) sums[i / 4][i % 4] = 0.0F;
  }
  // The last part's become all.
  __device__ void add_totals(const float (&totals)[kOwnTiles][4], float (&sums)[kTiles][4]) const {
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      const Words4 shared = tile < kOwnTiles ? Words4{} : load_words(shared_total(tile));
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const float total = tile < kOwnTiles ? totals[tile < kOwnTiles ? tile : 0][i]
                                             : float_from_bits(shared.words[i]);
        sums[tile][i] = total + sums[tile][i];
      }
    }
  }
  __device__ Words4* shared_total(uint32_t tile) const {
    return shared_totals_ + (tile - kOwnTiles) * (kProductWarps * kWarpThreads);
  }

  const LinearTask& task_;
  const OperandStages<Block>& stages_;
  Words4* shared_totals_;  // [kSharedTiles][kProductWarps * kWarpThreads], the thread's first
  Place place_;            // of the next chunk
  uint32_t num_left_ = 0;  // chunks of the tile
  Words4 first_[kHalfSteps];
  Words4 second_[kHalfSteps];
};

#endif  // MILLRACE_HAS_WGMMA

template <uint32_t kTokens, bool kHasParts>
__global__ void __launch_bounds__(kThreads, 1)
    wide_kernel(const __grid_constant__ LinearTask task) {
#if MILLRACE_HAS_WGMMA
  using Block = WideBlock<kTokens, kHasParts>;
  const OperandStages<Block> stages;
  WideTiles<kTokens> tiles(task);
  if (threadIdx.x == 0) stages.ring().create(1);
  sync_block();
  allow_next_kernel();
  if (warp_index() >= kProductWarps) {
    give_registers<kCopyRegisters>();
    if (threadIdx.x == kProductWarps * kWarpThreads) stages.fill(task, tiles);
    return;
  }
  take_registers<kProductRegisters>();
  wait_for_previous_kernel();
  PanelProduct<Block, kHasParts> product(task, stages);
  for (; tiles.has_tile(); tiles.go_on()) {
    float sums[Block::kTiles][4] = {};
    product.run(sums);
    finish(task, tiles.tile(), sums);
  }
#endif
}

template <uint32_t kTokens, bool kHasParts>
void launch_wide(StreamHandle stream, const LinearTask& task) {
  launch(
      stream,
      wide_shape(task, kTokens, WideBlock<kTokens, kHasParts>::kNumBytes),
      wide_kernel<kTokens, kHasParts>,
      task
  );
}

template <bool kHasParts>
void launch_fastest(StreamHandle stream, const LinearTask& task) {
  switch (
      tokens_of_wide_tile(task.num_panels, task.num_tokens, task.num_chunks, num_multiprocessors())
  ) {
    case 256:
      return launch_wide<256, kHasParts>(stream, task);
    case 192:
      return launch_wide<192, kHasParts>(stream, task);
    case 128:
      return launch_wide<128, kHasParts>(stream, task);
    default:
      return launch_wide<64, kHasParts>(stream, task);
  }
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
