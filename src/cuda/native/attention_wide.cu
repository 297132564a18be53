// paged_attention_wide(): a block has 128 rows of a sequence and a KV head at a time, two groups of
// four warps 64 each, and walks over the context, split by split, as paged_attention_walk.cu does.
// A third group brings keys and values of 128 positions at a time through shared memory.
//
// As wgmma has them, with g = lane / 4 and t = lane % 4, a warp has rows g and g + 8 of its 16, and
// of sixteen columns of a product a lane has 2t, 2t + 1, 2t + 8 and 2t + 9. Those are positions 4t
// .. 4t + 3 here, as keys and values lie in that order: so scores become weights where they are,
// and what a lane multiplies and adds is what it does in the other kernels.
#include "attention_block.cuh"
#include "base/math.h"
#include "cuda/kernels/attention_merge.cuh"
#include "cuda/kernels/attention_wide.h"
#include "cuda/kernels/launch_limits.h"

namespace millrace::cuda {
namespace {

#if MILLRACE_HAS_WGMMA

// Of a thread that copies, and of one that multiplies.
constexpr uint32_t kLoaderRegisters = 40;
constexpr uint32_t kRowRegisters = 232;

// By a group that multiplies.
template <uint32_t kHeadDim>
class RowsWalk {
 public:
  using Block = AttentionBlock<kHeadDim>;
  using Place = RingPlace<Block::kCount>;

  __device__ RowsWalk(const StageRing<Block::kCount>& ring) : ring_(ring) {}

  // Of the next item: `block_end` positions are seen by the block.
  __device__ void run(const TileTask& task, uint32_t block_end) {
    begin_rows(task);
    wait_for_previous_kernel();
    load_queries(task);
    const uint32_t end = task.num_rows() > 0 ? task.last_position() + 1 : 0;
    for (begin_ = 0; begin_ < block_end; begin_ += kSplit) {
      const uint32_t count = num_halves(begin_, block_end);
      if (end > begin_ + kStagePositions) {
        attend<2>(count);
      } else if (end > begin_) {
        attend<1>(count);
      } else {
        for (uint32_t i = 0; i < 2 * count; ++i) skip_stage();
      }
    }
    if (task.num_rows() > 0) write(task);
  }

 private:
  static constexpr uint32_t kHalfTiles = kStagePositions / 8;
  static constexpr uint32_t kPieceSteps = kPiece / 16;

  __device__ static uint32_t group_index() { return warp_index() / 4; }
  __device__ static uint32_t warp_row() { return warp_index() % 4 * kRows; }
  __device__ static unsigned char* queries() {
    return dynamic_shared<unsigned char>(
        Block::kQueriesBegin + group_index() * (kGroupRows / 8 * Block::kCoreRowBytes),
        kGroupRows / 8 * Block::kCoreRowBytes
    );
  }
  __device__ static const unsigned char* stage(const Place& place) {
    return dynamic_shared<unsigned char>(place.stage * Block::kStageBytes, Block::kStageBytes);
  }

  // What the warp's rows see, and their state before the first split.
  __device__ void begin_rows(const TileTask& task) {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t row = warp_row() + group_ + 8 * i;
      seen_ends_[i] = row < task.num_rows() ? task.position_of(row) + 1 : 0;
      maxima_[i] = kMinusInfinity;
      sums_[i] = 0.0F;
    }
    seen_by_all_ = shuffle(seen_ends_[0], 0);
  }

  __device__ void load_queries(const TileTask& task) const {
    Words4 words[2 * kHeadDim / 32];
#pragma unroll
    for (uint32_t i = 0; i < 2 * kHeadDim / 32; ++i) {
      const uint32_t row = warp_row() + i % 2 * 8 + group_;
      words[i] = row < task.num_rows() ? task.load_query(row, i / 2 * 32 + t_ * 8) : Words4{};
    }
    sync_group(group_index());  // nobody multiplies those before
#pragma unroll
    for (uint32_t i = 0; i < 2 * kHeadDim / 32; ++i) {
      unsigned char* const to = queries() + (warp_row() / 8 + i % 2) * Block::kCoreRowBytes;
      store_cores(to + i / 2 * (4 * Block::kCoreBytes), words[i]);
    }
    publish_to_products();
    sync_group(group_index());
  }

  __device__ void skip_stage() {
    ring_.wait_for_chunk(place_);
    ring_.release(place_);
    place_ = place_.next();
  }
  // So many halves of a split, of which the block has `count`. There are no branches between a
  // product and those who wait for it: nvcc would have it waited for at once.
  template <uint32_t kCount>
  __device__ void attend(uint32_t count) {
    Place keys[kCount];
    float scores[kCount * kHalfTiles][4];
    score_half<0>(keys[0], scores);
    if constexpr (kCount > 1) score_half<kHalfTiles>(keys[1], scores);
    if (kCount < count) skip_stage();
    wait_for_sums(scores);
    for (const Place& place : keys) ring_.release(place);
    Weights<kCount> weights;
    soften(scores, weights);
    Place values[kCount];
    for (Place& place : values) place = next_place();
    weigh_values(weights, values);
    for (const Place& place : values) ring_.release(place);
    if (kCount < count) skip_stage();
  }

  __device__ Place next_place() {
    const Place place = place_;
    place_ = place_.next();
    return place;
  }

  template <uint32_t kFirst, uint32_t kTiles>
  __device__ void score_half(Place& place, float (&scores)[kTiles][4]) {
    place = next_place();
    ring_.wait_for_chunk(place);
    constexpr uint32_t kStepBytes = 2 * Block::kCoreBytes;
    const uint64_t a = matrix_descriptor(queries(), Block::kCoreBytes, Block::kCoreRowBytes);
    const uint64_t b = matrix_descriptor(stage(place), Block::kCoreBytes, Block::kCoreRowBytes);
    begin_products();
    multiply_shared<kFirst, false>(scores, a, b);
#pragma unroll
    for (uint32_t i = 1; i < kHeadDim / 16; ++i) {
      multiply_shared<kFirst, true>(scores, a + i * (kStepBytes / 16), b + i * (kStepBytes / 16));
    }
    end_products();
  }

  // Positions of the split, and maybe more, that the row sees.
  __device__ uint32_t num_seen_by(uint32_t i) const {
    return seen_ends_[i] > begin_ ? seen_ends_[i] - begin_ : 0;
  }

  template <uint32_t kTiles>
  __device__ void hide_unseen(float (&scores)[kTiles][4]) const {
#pragma unroll
    for (uint32_t i = 0; i < kTiles * 4; ++i) {
      const uint32_t tile = i / 4;
      const uint32_t position = tile / 2 * 16 + t_ * 4 + tile % 2 * 2 + i % 2;
      if (position >= num_seen_by(i % 4 / 2)) scores[tile][i % 4] = kMinusInfinity;
    }
  }

  // The largest of either row; NaN, if there is one.
  template <uint32_t kTiles>
  __device__ static void find_maxima(const float (&scores)[kTiles][4], float (&maxima)[2]) {
    float of_four[4] = {-kLargestFloat, -kLargestFloat, -kLargestFloat, -kLargestFloat};
#pragma unroll
    for (uint32_t i = 0; i < kTiles * 4; ++i) {
      of_four[i % 4] = larger_or_nan(of_four[i % 4], scores[i / 4][i % 4]);
    }
#pragma unroll
    for (uint32_t row = 0; row < 2; ++row) {
      float& maximum = maxima[row];
      maximum = larger_or_nan(of_four[2 * row], of_four[2 * row + 1]);
      maximum = larger_or_nan(maximum, shuffle_xor(maximum, 2));
      maximum = larger_or_nan(maximum, shuffle_xor(maximum, 1));
    }
  }

  // What is not seen becomes infinitely small, what is beyond the largest float that, and the
  // largest of either row is found.
  template <uint32_t kTiles>
  __device__ void limit(float (&scores)[kTiles][4], float (&maxima)[2]) const {
    if (begin_ + kTiles * 8 > seen_by_all_) hide_unseen(scores);
    find_maxima(scores, maxima);
    const bool are_numbers = maxima[0] <= kLargestFloat && maxima[1] <= kLargestFloat;
    if (!any_of_warp(!are_numbers)) return;
#pragma unroll
    for (uint32_t i = 0; i < kTiles * 4; ++i) {
      scores[i / 4][i % 4] = smaller_number(scores[i / 4][i % 4], kLargestFloat);
    }
    find_maxima(scores, maxima);
  }

  // Words of two, as the first operand of products of 16 positions each.
  template <uint32_t kCount>
  using Weights = float[kCount * kStagePositions / 16][4];

  // Scores to weights, and the rows' state so far.
  template <uint32_t kTiles>
  __device__ void soften(float (&scores)[kTiles][4], float (&weights)[kTiles / 2][4]) {
    float maxima[2];
    limit(scores, maxima);
    float sums[2][2][4] = {};  // of either row: of the same place among 32 positions
#pragma unroll
    for (uint32_t step = 0; step < kTiles / 2; ++step) {
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t row = i % 2;
        const float* const pair = scores[step * 2 + i / 2] + row * 2;
        // Of what is not seen: exp(-104), which is 0.
        const float first = exponential_to_one(pair[0] - maxima[row]);
        const float second = exponential_to_one(pair[1] - maxima[row]);
        const uint32_t words = bfloat16_pair(first, second);
        weights[step][i] = float_from_bits(words);
        sums[row][step % 2][i / 2 * 2] += lower_bfloat16(words);
        sums[row][step % 2][i / 2 * 2 + 1] += upper_bfloat16(words);
      }
    }
#pragma unroll
    for (uint32_t row = 0; row < 2; ++row) merge_row(row, maxima[row], sum_of(sums[row]));
  }

  // As sum_over_warp() adds lanes that take every 32nd position.
  __device__ static float sum_of(const float (&sums)[2][4]) {
    float of_place[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      of_place[i] = sums[0][i] + sums[1][i];
      of_place[i] += shuffle_xor(of_place[i], 2);
      of_place[i] += shuffle_xor(of_place[i], 1);
    }
    return (of_place[0] + of_place[2]) + (of_place[1] + of_place[3]);
  }

  // A row that sees nothing of the split stays what it is.
  __device__ void merge_row(uint32_t i, float maximum, float sum) {
    if (num_seen_by(i) > 0) {
      factors_[i] = merge_factors(maxima_[i], maximum);
      maxima_[i] = factors_[i].maximum;
    } else {
      factors_[i] = {maxima_[i], 1.0F, 0.0F};
    }
    sums_[i] = merge(factors_[i], sums_[i], sum);
  }

  // A piece's products are under way while those before are added.
  template <uint32_t kSteps, uint32_t kCount>
  __device__ void weigh_values(const float (&weights)[kSteps][4], const Place (&places)[kCount]) {
    constexpr uint32_t kSeenPieces = kSteps / kPieceSteps;
    constexpr uint32_t kProducts = kSeenPieces * Block::kChunks;
    float products[2][kWordElements][4];
    float outputs[kWordElements][4];
    for (const Place& place : places) ring_.wait_for_chunk(place);
    multiply_piece(weights, 0, 0, places[0], products[0]);
#pragma unroll
    for (uint32_t i = 0; i < kProducts; ++i) {
      const uint32_t next = i + 1;
      if (next < kProducts) {
        const uint32_t piece = next % kSeenPieces;
        const Place& place = places[piece / (kPieces / kHalves)];
        multiply_piece(weights, piece, next / kSeenPieces, place, products[next % 2]);
        wait_for_products<1>();
      } else {
        wait_for_products<0>();
      }
      add_products(i % kSeenPieces, products[i % 2], outputs);
      if (next % kSeenPieces == 0) merge_outputs(i / kSeenPieces, outputs);
    }
  }

  __device__ static void add_products(
      uint32_t piece, float (&products)[kWordElements][4], float (&outputs)[kWordElements][4]
  ) {
    hold(products);
#pragma unroll
    for (uint32_t i = 0; i < kWordElements * 4; ++i) {
      float& output = outputs[i / 4][i % 4];
      output = piece == 0 ? products[i / 4][i % 4] : output + products[i / 4][i % 4];
    }
  }

  template <uint32_t kSteps>
  __device__ static void multiply_piece(
      const float (&weights)[kSteps][4],
      uint32_t piece,
      uint32_t chunk,
      const Place& place,
      float (&products)[kWordElements][4]
  ) {
    constexpr uint32_t kStepBytes = 2 * Block::kCoreRowBytes;
    const uint32_t offset =
        piece % 2 * kPieceSteps * kStepBytes + chunk * (kChunk / 8) * Block::kCoreBytes;
    const uint64_t b =
        matrix_descriptor(stage(place) + offset, Block::kCoreRowBytes, Block::kCoreBytes);
    begin_products();
    multiply_rows<false>(products, weights[piece * kPieceSteps], b);
#pragma unroll
    for (uint32_t i = 1; i < kPieceSteps; ++i) {
      multiply_rows<true>(products, weights[piece * kPieceSteps + i], b + i * (kStepBytes / 16));
    }
    end_products();
  }

  // Of the split, to those of all splits so far.
  __device__ void merge_outputs(uint32_t chunk, const float (&outputs)[kWordElements][4]) const {
#pragma unroll
    for (uint32_t e = 0; e < kWordElements; ++e) {
      Words4* const place = output(chunk, e);
      Words4 words = begin_ > 0 ? load_words(place) : Words4{};
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const float before = float_from_bits(words.words[i]);
        words.words[i] = bits_from_float(merge(factors_[i / 2], before, outputs[e][i]));
      }
      store_words(place, words);
    }
  }
  // The thread's own.
  __device__ static Words4* output(uint32_t chunk, uint32_t e) {
    constexpr uint32_t kRowThreads = kProductWarps * kWarpThreads;
    return dynamic_shared<Words4>(Block::kOutputsBegin, kHeadDim / 8 * kRowThreads) +
           (chunk * kWordElements + e) * kRowThreads + threadIdx.x;
  }

  // A chunk of a row is a chunk of what linear() multiplies: operand_tiles.h.
  __device__ void write(const TileTask& task) const {
    static_assert(kChunk == kChunkInputs);
#pragma unroll
    for (uint32_t chunk = 0; chunk < Block::kChunks; ++chunk) {
      BFloat16Bits* places[2];
#pragma unroll
      for (uint32_t i = 0; i < 2; ++i) {
        const uint32_t row = warp_row() + group_ + 8 * i;
        const bool is_there = row < task.num_rows();
        places[i] = is_there ? task.out() + task.out_element(row, chunk * kChunk) : nullptr;
      }
#pragma unroll 1
      for (uint32_t e = 0; e < kWordElements; ++e) {
        const Words4 words = load_words(output(chunk, e));
#pragma unroll
        for (uint32_t i = 0; i < 2; ++i) {
          if (places[i] == nullptr) continue;
          const uint32_t first = finished(float_from_bits(words.words[2 * i]), sums_[i]);
          const uint32_t second = finished(float_from_bits(words.words[2 * i + 1]), sums_[i]);
          store_word(places[i] + e * kCoreElements + t_ * 2, first | second << 16);
        }
      }
    }
  }

  const StageRing<Block::kCount>& ring_;
  Place place_;
  uint32_t group_ = lane_index() / 4;
  uint32_t t_ = lane_index() % 4;
  uint32_t seen_ends_[2];  // positions that either row sees
  uint32_t seen_by_all_;   // that every row of the warp sees
  float maxima_[2];        // of all splits so far
  float sums_[2];

  // Of the split.
  uint32_t begin_;  // its first position
  MergeFactors factors_[2] = {};
};

#endif  // MILLRACE_HAS_WGMMA

template <uint32_t kHeadDim>
__global__ void __launch_bounds__(kThreads, 1)
    attention_kernel(const __grid_constant__ PagedAttentionArgs args) {
#if MILLRACE_HAS_WGMMA
  using Block = AttentionBlock<kHeadDim>;
  const StageRing<Block::kCount> ring(Block::kRingBegin);
  if (threadIdx.x == 0) ring.create(kCopyWarps * kWarpThreads);
  sync_block();
  allow_next_kernel();
  AttentionItems items(args);
  if (warp_index() >= kProductWarps) {
    give_registers<kLoaderRegisters>();
    CacheLoader<kHeadDim>(args, ring).run(items);
    return wait_for_previous_kernel();
  }
  take_registers<kRowRegisters>();
  RowsWalk<kHeadDim> walk(ring);
  for (; items.has_item(); items.go_on()) {
    const uint32_t block_end = items.task(0, kWideAttentionRows).last_position() + 1;
    walk.run(items.task(warp_index() / 4 * kGroupRows, kGroupRows), block_end);
  }
  wait_for_previous_kernel();
#endif
}

template <uint32_t kHeadDim>
void launch_wide(StreamHandle stream, const PagedAttentionArgs& args) {
  const size_t num_items = args.num_tiles * args.cache.num_kv_heads;
  const size_t num_blocks = num_multiprocessors();
  launch(
      stream,
      {.grid = {grid_width(num_items < num_blocks ? num_items : num_blocks)},
       .block = {kThreads},
       .num_shared_bytes = AttentionBlock<kHeadDim>::kNumBytes},
      attention_kernel<kHeadDim>,
      args
  );
}

}  // namespace

bool is_for_attention_wide(size_t head_dim) {
  return is_wide_head_dim(head_dim) && is_hopper();
}

void paged_attention_wide(StreamHandle stream, const PagedAttentionArgs& args) {
  if (args.num_tiles == 0) return;
  check_attention_args(args);
  CHECK(args.q != nullptr, "attention's memory");
  CHECK(is_for_attention_wide(args.cache.head_dim), "heads of 64 or 128 dimensions");
  CHECK(args.num_tokens > kFewTokens, "many tokens");
  args.cache.head_dim == 64 ? launch_wide<64>(stream, args) : launch_wide<128>(stream, args);
}

}  // namespace millrace::cuda
