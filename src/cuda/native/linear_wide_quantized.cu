#include "cuda/kernels/code_weights.cuh"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/linear_wide.h"
#include "wide_block.cuh"

namespace millrace::cuda {
namespace {

// kTokens: of a block. What it has in shared memory: the codes' table, stages of a chunk each, the
// ring's barriers, and, where the inputs are summed in parts, totals over those before.
// A stage: the chunk's tokens, each panel's codes, and with the first chunk of a pair the pair's
// scales of each panel.
template <class Codes, uint32_t kTokens>
struct CodeBlock {
  static constexpr uint32_t kCount = 6;
  static constexpr uint32_t kTiles = kTokens / kTileTokens;

  static constexpr uint32_t kTokenBytes = kTiles * kTileBytes;
  static constexpr uint32_t kCodeBytes = chunk_code_bytes(Codes::kBits);  // of a panel
  static constexpr uint32_t kScalesBegin = kTokenBytes + kPanelsOfBlock * kCodeBytes;
  static constexpr uint32_t kStageBytes = kScalesBegin + kPanelsOfBlock * kPairScaleBytes;

  static constexpr size_t kTableBegin = 0;
  static constexpr size_t kStagesBegin = kTableBegin + Codes::kTableBytes;
  static constexpr size_t kRingBegin = kStagesBegin + size_t{kCount} * kStageBytes;
  static constexpr size_t kTotalsBegin = kRingBegin + ring_bytes(kCount);
  static constexpr size_t kTotalBytes =
      size_t{kProductWarps} * kTiles * kWarpThreads * sizeof(Words4);
};

#if MILLRACE_HAS_WGMMA

// Chunks on their way through shared memory: filled by the first threads of the copying warps, each
// of which has some of the panels, so that one need not ask for all; read by the others.
template <class Codes, uint32_t kTokens>
class CodeStages {
 public:
  using Block = CodeBlock<Codes, kTokens>;
  using Place = RingPlace<Block::kCount>;

  __device__ CodeStages()
      : stages_(dynamic_shared<unsigned char>(
            Block::kStagesBegin, size_t{Block::kCount} * Block::kStageBytes
        )),
        ring_(Block::kRingBegin) {}

  __device__ const StageRing<Block::kCount>& ring() const { return ring_; }

  // By the thread that has the panels of a block from `copier` * kPanelsOfCopier on: of all chunks
  // of the block's tiles. The first one has the tokens too.
  __device__ void fill(const QuantizedTask& task, WideTiles<kTokens> tiles, uint32_t copier) const {
    Place place;
    for (; tiles.has_tile(); tiles.go_on()) {
      const WideTile tile = tiles.tile();
      const unsigned char* panels[kPanelsOfCopier];
#pragma unroll
      for (uint32_t i = 0; i < kPanelsOfCopier; ++i) {
        // Beyond the last panel: the last one again, whose sums nobody stores.
        const uint32_t index = tile.first_panel() + copier * kPanelsOfCopier + i;
        const uint32_t last = task.product.num_panels - 1;
        panels[i] = task.panel(index < last ? index : last);
      }
      for (uint32_t chunk = 0; chunk < task.product.num_chunks; ++chunk, place = place.next()) {
        const uint32_t num_scale_bytes = chunk % kPairChunks == 0 ? kPairScaleBytes : 0;
        const uint32_t num_token_bytes = copier == 0 ? Block::kTokenBytes : 0;
        ring_.begin_filling(
            place, num_token_bytes + kPanelsOfCopier * (Block::kCodeBytes + num_scale_bytes)
        );
        if (copier == 0) copy_tokens(task, tile, chunk, place);
#pragma unroll
        for (uint32_t i = 0; i < kPanelsOfCopier; ++i) {
          const uint32_t warp = copier * kPanelsOfCopier + i;
          copy_to_shared(
              codes(place, warp),
              panels[i] + chunk * Block::kCodeBytes,
              Block::kCodeBytes,
              ring_.filled(place)
          );
          if (num_scale_bytes == 0) continue;
          copy_to_shared(
              scales(place, warp),
              panels[i] + task.scales_begin + chunk / kPairChunks * kPairScaleBytes,
              kPairScaleBytes,
              ring_.filled(place)
          );
        }
      }
    }
  }

  // What a lane has of a chunk of its warp's panel.
  __device__ void load_pieces(const Place& place, Words4 (&pieces)[Codes::kPieces]) const {
    const unsigned char* const from = codes(place, warp_index()) + lane_index() * sizeof(Words4);
#pragma unroll
    for (uint32_t i = 0; i < Codes::kPieces; ++i) pieces[i] = load_words(from + i * kPieceBytes);
  }
  // Of a pair, whose first chunk is given: four bytes (code_tiles.h).
  __device__ uint32_t load_scales(const Place& place) const {
    return load_word(scales(place, warp_index()) + lane_index() / 4 * 4);
  }
  // Of a chunk's first step.
  __device__ uint64_t token_descriptor(const Place& place) const {
    return matrix_descriptor(stage(place), kCoreElements * 2, kTileBytes);
  }

 private:
  static constexpr uint32_t kPanelsOfCopier = kPanelsOfBlock / kCopyWarps;

  __device__ void copy_tokens(
      const QuantizedTask& task, const WideTile& tile, uint32_t chunk, const Place& place
  ) const {
    static_assert(kGroupTokens % kTokens == 0);
    constexpr uint32_t kGroupTiles = kGroupTokens / kTileTokens;
    const size_t group = tile.first_token_tile / kGroupTiles;
    copy_to_shared(
        stage(place),
        task.product.args.x + (group * task.product.num_chunks + chunk) * kGroupChunkElements +
            tile.first_token_tile % kGroupTiles * kTileChunkElements,
        Block::kTokenBytes,
        ring_.filled(place)
    );
  }

  __device__ unsigned char* stage(const Place& place) const {
    return stages_ + place.stage * Block::kStageBytes;
  }
  __device__ unsigned char* codes(const Place& place, uint32_t warp) const {
    return stage(place) + Block::kTokenBytes + warp * Block::kCodeBytes;
  }
  __device__ unsigned char* scales(const Place& place, uint32_t warp) const {
    return stage(place) + Block::kScalesBegin + warp * kPairScaleBytes;
  }

  unsigned char* stages_;
  StageRing<Block::kCount> ring_;
};

// The product of a warp's panel and a block's tokens, but for the rows' scales.
//
// A chunk's codes become weights in registers while the chunk before is multiplied. While its
// products are scaled, the tensor cores have those of the other group of warps.
template <class Codes, uint32_t kTokens>
class CodeProduct {
 public:
  using Block = CodeBlock<Codes, kTokens>;
  static constexpr uint32_t kTiles = Block::kTiles;

  __device__ CodeProduct(
      const QuantizedTask& task, const Codes& codes, const CodeStages<Codes, kTokens>& stages
  )
      : task_(task),
        codes_(codes),
        stages_(stages),
        totals_(
            dynamic_shared<Words4>(
                Block::kTotalsBegin, size_t{kProductWarps} * kTiles * kWarpThreads
            ) +
            warp_index() * (kTiles * kWarpThreads) + lane_index()
        ) {}

  // Of the next tile. `sums`: zeros, then the sums.
  __device__ void run(float (&sums)[kTiles][4]) {
    const uint32_t num_chunks = task_.product.num_chunks;
    Words4 even[kChunkSteps];
    Words4 odd[kChunkSteps];
    part_ = 0;
    load_weights<0>(even);
#pragma unroll 1
    for (uint32_t chunk = 0; chunk < num_chunks; chunk += kPairChunks) {
      add_chunk<0>(chunk, even, odd, sums);
      if (chunk + 1 < num_chunks) add_chunk<1>(chunk + 1, odd, even, sums);
      if (chunk / kPairChunks + 1 == task_.part_begin(part_ + 1)) end_part(sums);
    }
  }

 private:
  // Of the next chunk. kOfPair: whether it is the first of its pair, with which the scales come, or
  // the second.
  template <uint32_t kOfPair>
  __device__ void load_weights(Words4 (&weights)[kChunkSteps]) {
    Words4 pieces[Codes::kPieces];
    stages_.ring().wait_for_chunk(place_);
    stages_.load_pieces(place_, pieces);
    if (kOfPair == 0) scales_ = stages_.load_scales(place_);
#pragma unroll
    for (uint32_t i = 0; i < kChunkSteps; ++i) weights[i] = codes_.weights(pieces, i);
  }

  // `own` are the chunk's weights; `next` become those of the one after it.
  template <uint32_t kOfPair>
  __device__ void add_chunk(
      uint32_t chunk,
      const Words4 (&own)[kChunkSteps],
      Words4 (&next)[kChunkSteps],
      float (&sums)[kTiles][4]
  ) {
    const uint64_t tokens = stages_.token_descriptor(place_);
    const uint32_t scales = scales_ >> (kOfPair * 16);
    float products[kTiles][4];
    begin_products();
    multiply_wide_first(products, own[0].words, tokens);
#pragma unroll
    for (uint32_t i = 1; i < kChunkSteps; ++i) {
      multiply_wide(products, own[i].words, tokens + i * kDescriptorStep);
    }
    end_products();
    const RingPlace<Block::kCount> own_place = place_;
    place_ = place_.next();
    if (chunk + 1 < task_.product.num_chunks) load_weights<1 - kOfPair>(next);
    wait_for_sums(products);
    stages_.ring().release(own_place);
    const float of_rows[2] = {
        static_cast<float>(scales & 0xFFU), static_cast<float>(scales >> 8 & 0xFFU)};
#pragma unroll
    for (uint32_t i = 0; i < kTiles * 4; ++i) {
      float& sum = sums[i / 4][i % 4];
      sum = fused_multiply_add(products[i / 4][i % 4], of_rows[i % 4 / 2], sum);
    }
  }

  // After a part's last chunk: its sums are added to those before it, which wait in shared memory,
  // each lane's for itself, as there are not registers enough. After the last part `sums` are all.
  __device__ void end_part(float (&sums)[kTiles][4]) {
    const bool is_first = part_ == 0;
    const bool is_last = ++part_ == task_.product.num_parts();
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      Words4* const total = totals_ + tile * kWarpThreads;
      Words4 words;
      if (!is_first) {
        words = load_words(total);
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
          sums[tile][i] = float_from_bits(words.words[i]) + sums[tile][i];
        }
      }
      if (is_last) continue;
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        words.words[i] = bits_from_float(sums[tile][i]);
        sums[tile][i] = 0.0F;
      }
      store_words(total, words);
    }
  }

  const QuantizedTask& task_;
  const Codes& codes_;
  const CodeStages<Codes, kTokens>& stages_;
  Words4* totals_;                  // [kTiles][kWarpThreads], the lane's first
  RingPlace<Block::kCount> place_;  // of the next chunk
  uint32_t scales_ = 0;             // of the pair
  uint32_t part_ = 0;
};

template <uint32_t kTiles>
__device__ void scale_rows(const QuantizedTask& task, uint32_t panel, float (&sums)[kTiles][4]) {
  const uint32_t row = lane_index() / 4;
  const float scales[2] = {task.row_scale(panel, row), task.row_scale(panel, row + 8)};
#pragma unroll
  for (uint32_t i = 0; i < kTiles * 4; ++i) sums[i / 4][i % 4] *= scales[i % 4 / 2];
}

#endif  // MILLRACE_HAS_WGMMA

template <class Codes, uint32_t kTokens>
__global__ void __launch_bounds__(kThreads, 1)
    wide_code_kernel(const __grid_constant__ QuantizedTask task) {
#if MILLRACE_HAS_WGMMA
  using Product = CodeProduct<Codes, kTokens>;
  const Codes codes(Product::Block::kTableBegin);
  const CodeStages<Codes, kTokens> stages;
  codes.create(task);
  WideTiles<kTokens> tiles(task.product);
  if (threadIdx.x == 0) stages.ring().create(kCopyWarps);
  sync_block();
  allow_next_kernel();
  if (warp_index() >= kProductWarps) {
    give_registers<kCopyRegisters>();
    wait_for_previous_kernel();
    if (lane_index() == 0) stages.fill(task, tiles, warp_index() - kProductWarps);
    return;
  }
  take_registers<kProductRegisters>();
  wait_for_previous_kernel();
  Product product(task, codes, stages);
  for (; tiles.has_tile(); tiles.go_on()) {
    const WideTile tile = tiles.tile();
    float sums[Product::kTiles][4] = {};
    product.run(sums);
    if (tile.panel() < task.product.num_panels) scale_rows(task, tile.panel(), sums);
    finish(task.product, tile, sums);
  }
#endif
}

template <class Codes, uint32_t kTokens>
void launch_wide(StreamHandle stream, const QuantizedTask& task) {
  using Block = CodeBlock<Codes, kTokens>;
  const size_t num_total_bytes = task.product.num_parts() > 1 ? Block::kTotalBytes : 0;
  launch(
      stream,
      wide_shape(task.product, kTokens, Block::kTotalsBegin + num_total_bytes),
      wide_code_kernel<Codes, kTokens>,
      task
  );
}

}  // namespace

bool is_for_linear_wide_quantized(const QuantizedTask& task) {
  return task.product.args.num_tokens >= kTokensMin && is_hopper();
}

// Tokens of a tile: as in linear_wide.cu. 64 take 0.7 to 0.8 of what 128 take, since codes become
// weights in both (decision 31).
template <class Codes>
void linear_wide_quantized(StreamHandle stream, const QuantizedTask& task) {
  const auto cost = [&task](uint32_t num_tokens, size_t of_tile) {
    const LinearTask& product = task.product;
    return wide_cost(
        num_wide_tiles(product.num_panels, product.num_tokens, num_tokens),
        num_multiprocessors(),
        of_tile
    );
  };
  cost(64, 2) < cost(128, 3) ? launch_wide<Codes, 64>(stream, task)
                             : launch_wide<Codes, 128>(stream, task);
}

template void linear_wide_quantized<Int8Codes>(StreamHandle stream, const QuantizedTask& task);
template void linear_wide_quantized<Int4Codes>(StreamHandle stream, const QuantizedTask& task);

}  // namespace millrace::cuda
