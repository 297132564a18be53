// The way of paged_attention() for many tiles: a warp walks over the context of a tile of 16 rows,
// all splits in ascending order, and gets the same bits as paged_attention_in_splits(). A warp
// meets no other. The four of a block take neighbouring tiles, so that they find keys and values in
// the cache of their multiprocessor.
//
// As multiply_fragments() has it, with g = lane / 4 and t = lane % 4: a lane has rows g and g + 8
// at positions 8j + 2t and 8j + 2t + 1 of the split, for every j.
#include "base/math.h"
#include "cuda/kernels/attention_merge.cuh"
#include "cuda/kernels/attention_tile.cuh"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/paged_attention.h"

namespace millrace::cuda {
namespace {

constexpr uint32_t kWalkThreads = 128;
constexpr uint32_t kWalkWarps = kWalkThreads / kWarpThreads;
constexpr uint32_t kSplitTiles = kSplit / 8;  // products of 8 positions
constexpr uint32_t kSplitSteps = kSplit / 16;
constexpr uint32_t kPieceTiles = kPiece / 8;
constexpr uint32_t kKeyTiles = 4;  // loaded at once: with eight there are too few registers
constexpr uint32_t kLaneRows = kSplit / kWarpThreads;
constexpr uint32_t kPieceSteps = kPiece / 16;  // of 16, as deep as a product
constexpr uint32_t kStepDimensions = 32;       // of a key, that a load of all lanes brings

// Where things lie in a warp's shared memory, in bytes; each a multiple of 16. Queries and outputs
// are the lanes' own: kept here for want of registers.
struct WalkMemory {
  size_t cache_rows;  // uint32 [kSplit]
  size_t queries;     // Words4 [width / kStepDimensions][2][kWarpThreads]
  size_t outputs;     // Words4 [width / kChunk][kWordElements][kWarpThreads]
  size_t num_bytes;
  uint32_t width;  // head_dim, rounded up to kChunk

  __host__ __device__ explicit WalkMemory(size_t head_dim) {
    width = static_cast<uint32_t>((head_dim + kChunk - 1) / kChunk * kChunk);
    cache_rows = 0;
    queries = cache_rows + size_t{kSplit} * 4;
    outputs = queries + size_t{width} * kRows * 2;
    num_bytes = outputs + size_t{width} * kRows * 4;
  }
};

// `kIsFull`: head_dim is a multiple of kChunk.
template <bool kIsFull>
class TileWalk {
 public:
  // REQUIRES: the tile has rows.
  __device__ explicit TileWalk(const TileTask& task) : task_(task), memory_(task.head_dim()) {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t row = group_ + 8 * i;
      seen_ends_[i] = row < task.num_rows() ? task.position_of(row) + 1 : 0;
    }
    find_cache_rows(0);
  }

  __device__ void run() {
    load_queries();
    for (uint32_t split = 0; split < task_.num_splits(); ++split) {
      begin(split);
      float scores[kSplitTiles][4] = {};
      score_positions(scores);
      uint32_t weights[kSplitSteps][4];
      soften(scores, split, weights);
      find_cache_rows(split + 1);  // ahead of time: the block table may be far
#pragma unroll 1
      for (uint32_t chunk = 0; chunk < memory_.width; chunk += kChunk) {
        float outputs[kWordElements][4];
        weigh_values(weights, chunk, outputs);
        merge_outputs(split, chunk, outputs);
        if (split + 1 == task_.num_splits()) write(chunk, outputs);
      }
    }
  }

 private:
  __device__ uint32_t* cache_rows() const {
    return memory<uint32_t>(memory_.cache_rows, kSplit);
  }
  __device__ Words4* query(uint32_t dimension, uint32_t i) const {
    const size_t index = (dimension / kStepDimensions * 2 + i) * kWarpThreads + lane_index();
    return memory<Words4>(memory_.queries, memory_.width * kRows / kWordElements) + index;
  }
  __device__ Words4* output(uint32_t chunk, uint32_t e) const {
    const size_t index = (chunk / kChunk * kWordElements + e) * kWarpThreads + lane_index();
    return memory<Words4>(memory_.outputs, memory_.width * kRows / 4) + index;
  }
  template <class T>
  __device__ T* memory(size_t offset, size_t count) const {
    return dynamic_shared<T>(warp_index() * memory_.num_bytes + offset, count);
  }

  // As the first operand of two products.
  __device__ void load_queries() const {
    for (uint32_t d = 0; d < memory_.width; d += kStepDimensions) {
      Words4 rows[2];
#pragma unroll
      for (uint32_t i = 0; i < 2; ++i) {
        const uint32_t row = group_ + 8 * i;
        if (row < task_.num_rows()) rows[i] = task_.load_query(row, d + t_ * kWordElements);
      }
      const uint32_t(&upper)[4] = rows[0].words;
      const uint32_t(&lower)[4] = rows[1].words;
      *query(d, 0) = {{upper[0], lower[0], upper[1], lower[1]}};
      *query(d, 1) = {{upper[2], lower[2], upper[3], lower[3]}};
    }
  }

  // Every 32nd position's. Beyond the last one that the tile sees comes this again: its score is
  // not looked at.
  __device__ void find_cache_rows(uint32_t split) {
#pragma unroll
    for (uint32_t i = 0; i < kLaneRows; ++i) {
      const uint32_t position = split * kSplit + i * kWarpThreads + lane_index();
      const uint32_t last = task_.last_position();
      next_rows_[i] = task_.cache_row(position < last ? position : last);
    }
  }

  // REQUIRES: find_cache_rows() of the same split.
  __device__ void begin(uint32_t split) {
    begin_ = split * kSplit;
    sync_warp();
#pragma unroll
    for (uint32_t i = 0; i < kLaneRows; ++i) {
      cache_rows()[i * kWarpThreads + lane_index()] = next_rows_[i];
    }
    sync_warp();
  }

  // Positions of the split, and maybe more: by either row, by the tile's last and its first row.
  __device__ uint32_t num_seen_by(uint32_t i) const {
    return num_beyond_begin(seen_ends_[i]);
  }
  __device__ uint32_t num_seen() const {
    return num_beyond_begin(task_.last_position() + 1);
  }
  __device__ uint32_t num_seen_by_all() const {
    return num_beyond_begin(shuffle(seen_ends_[0], 0));
  }
  __device__ uint32_t num_beyond_begin(uint32_t end) const {
    return end > begin_ ? end - begin_ : 0;
  }

  // Eight dimensions of a row of the cache.
  __device__ Words4 load(const BFloat16Bits* from, uint32_t row, uint32_t dimension) const {
    const uint32_t head_dim = task_.head_dim();
    if (!kIsFull) {
      return load_elements(from + size_t{row} * head_dim, dimension, head_dim, task_.is_whole());
    }
    // One instruction finds it.
    const auto* const bytes = reinterpret_cast<const unsigned char*>(from + dimension);
    return load_words(bytes + size_t{row} * (head_dim * 2));
  }

  // Of 8 positions each, from tile `first` on.
  __device__ void load_keys(Words4 (&keys)[kKeyTiles], uint32_t first, uint32_t d) const {
    const uint32_t* const rows = cache_rows() + first * 8 + group_;
#pragma unroll
    for (uint32_t tile = 0; tile < kKeyTiles; ++tile) {
      keys[tile] = load(task_.keys(), rows[tile * 8], d + t_ * kWordElements);
    }
  }

  __device__ void multiply_keys(
      float (&scores)[kSplitTiles][4], uint32_t first, const Words4 (&keys)[kKeyTiles], uint32_t d
  ) const {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const Words4 queries = *query(d, i);
#pragma unroll
      for (uint32_t tile = 0; tile < kKeyTiles; ++tile) {
        multiply_fragments(
            scores[first + tile],
            queries.words,
            {keys[tile].words[2 * i], keys[tile].words[2 * i + 1]}
        );
      }
    }
  }

  // Keys are loaded a step before they are multiplied.
  __device__ void score_positions(float (&scores)[kSplitTiles][4]) const {
    Words4 even[kKeyTiles];
    Words4 odd[kKeyTiles];
    load_keys(even, 0, 0);
#pragma unroll
    for (uint32_t tile = 0; tile < kSplitTiles; tile += kKeyTiles) {
      if (tile > 0 && tile * 8 >= num_seen()) break;
      uint32_t d = 0;
#pragma unroll 1
      do {
        const uint32_t next = d + 2 * kStepDimensions;
        const bool goes_on = next < memory_.width;
        load_keys(odd, tile, d + kStepDimensions);
        multiply_keys(scores, tile, even, d);
        load_keys(even, goes_on ? tile : (tile + kKeyTiles) % kSplitTiles, goes_on ? next : 0);
        multiply_keys(scores, tile, odd, d + kStepDimensions);
        d = next;
      } while (d < memory_.width);
    }
  }

  __device__ void hide_unseen(float (&scores)[kSplitTiles][4], uint32_t piece) const {
#pragma unroll
    for (uint32_t i = 0; i < kPieceTiles * 4; ++i) {
      const uint32_t tile = piece * kPieceTiles + i / 4;
      const uint32_t position = tile * 8 + t_ * 2 + i % 2;
      if (position >= num_seen_by(i % 4 / 2)) scores[tile][i % 4] = kMinusInfinity;
    }
  }

  // Clamps the scores, and finds the largest of either row.
  __device__ void find_maxima(float (&scores)[kSplitTiles][4], float (&maxima)[2]) const {
    const uint32_t num_seen_by_all = this->num_seen_by_all();
#pragma unroll
    for (uint32_t piece = 0; piece < kPieces; ++piece) {
      if (piece > 0 && piece * kPiece >= num_seen()) break;
      if ((piece + 1) * kPiece > num_seen_by_all) hide_unseen(scores, piece);
#pragma unroll
      for (uint32_t i = 0; i < kPieceTiles * 4; ++i) {
        float& score = scores[piece * kPieceTiles + i / 4][i % 4];
        score = smaller_number(score, kLargestFloat);
        maxima[i % 4 / 2] = larger_number(maxima[i % 4 / 2], score);
      }
    }
#pragma unroll
    for (float& maximum : maxima) {
      maximum = larger_number(maximum, shuffle_xor(maximum, 2));
      maximum = larger_number(maximum, shuffle_xor(maximum, 1));
    }
  }

  // Scores to weights, four neighbours of either row in four words, and the rows' state so far.
  __device__ void soften(
      float (&scores)[kSplitTiles][4], uint32_t split, uint32_t (&weights)[kSplitSteps][4]
  ) {
    float maxima[2] = {-kLargestFloat, -kLargestFloat};
    find_maxima(scores, maxima);
    float sums[2][4][2] = {};  // of either row: of the same place among 32 positions
#pragma unroll
    for (uint32_t step = 0; step < kSplitSteps; ++step) {
      if (step > 0 && step % kPieceSteps == 0 && step * 16 >= num_seen()) break;
#pragma unroll
      for (uint32_t row = 0; row < 2; ++row) {
        uint32_t words[2];
#pragma unroll
        for (uint32_t i = 0; i < 2; ++i) {
          const uint32_t tile = step * 2 + i;
          const float* const pair = scores[tile] + row * 2;
          // Of what is not seen: exp(-104), which is 0.
          const float first = exponential_to_one(pair[0] - maxima[row]);
          const float second = exponential_to_one(pair[1] - maxima[row]);
          words[i] = bfloat16_pair(first, second);
          sums[row][tile % 4][0] += lower_bfloat16(words[i]);
          sums[row][tile % 4][1] += upper_bfloat16(words[i]);
        }
        exchange(words, weights[step][row], weights[step][row + 2]);
      }
    }
#pragma unroll
    for (uint32_t row = 0; row < 2; ++row) merge_row(split, row, maxima[row], sum_of(sums[row]));
  }

  // Of 16 positions the quad's lanes have 2t, 2t + 1 and 8 + 2t, 9 + 2t; each gets 4t .. 4t + 3.
  // The lanes at the quad's ends want the lower pairs of others' when those in between want the
  // upper ones: so two exchanges do.
  __device__ void exchange(const uint32_t (&words)[2], uint32_t& first, uint32_t& second) const {
    constexpr uint32_t kSources[2] = {0x2130, 0x3021};  // of lane t: digit t
    const bool is_end = t_ == 0 || t_ == 3;
    const uint32_t quad = lane_index() - t_;
    const auto source = [&](uint32_t i) { return quad + (kSources[i] >> (4 * t_) & 3U); };
    const uint32_t a = shuffle(is_end ? words[0] : words[1], source(0));
    const uint32_t b = shuffle(is_end ? words[1] : words[0], source(1));
    first = is_end ? a : b;
    second = is_end ? b : a;
  }

  // As sum_over_warp() adds lanes that take every 32nd position.
  __device__ float sum_of(const float (&sums)[4][2]) const {
    float of_pair[2];
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      of_pair[i] = (sums[0][i] + sums[2][i]) + (sums[1][i] + sums[3][i]);
      of_pair[i] += shuffle_xor(of_pair[i], 2);
      of_pair[i] += shuffle_xor(of_pair[i], 1);
    }
    return of_pair[0] + of_pair[1];
  }

  __device__ void merge_row(uint32_t split, uint32_t i, float maximum, float sum) {
    if (split == 0) {
      maxima_[i] = maximum;
      sums_[i] = sum;
    } else if (num_seen_by(i) > 0) {
      factors_[i] = merge_factors(maxima_[i], maximum);
      maxima_[i] = factors_[i].maximum;
      sums_[i] = merge(factors_[i], sums_[i], sum);
    }
  }

  // Dimensions chunk + 8g .. + 7 at positions 4t .. 4t + 3 of a step; zero where nothing is seen.
  __device__ void load_values(Words4 (&values)[4], uint32_t step, uint32_t chunk) const {
    const uint32_t first = step * 16 + t_ * 4;
    const uint32_t dimension = chunk + group_ * kWordElements;
    const Words4 rows = load_words(cache_rows() + first);
    if ((step + 1) * 16 <= num_seen()) {
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) values[i] = load(task_.values(), rows.words[i], dimension);
      return;
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      values[i] =
          first + i < num_seen() ? load(task_.values(), rows.words[i], dimension) : Words4{};
    }
  }

  // Column n of product e is dimension chunk + 8n + e. Values are loaded two steps before.
  __device__ void weigh_values(
      const uint32_t (&weights)[kSplitSteps][4], uint32_t chunk, float (&outputs)[kWordElements][4]
  ) const {
    Words4 values[3][4];
    load_values(values[0], 0, chunk);
    load_values(values[1], 1, chunk);
#pragma unroll
    for (uint32_t piece = 0; piece < kPieces; ++piece) {
      if (piece > 0 && piece * kPiece >= num_seen()) break;
      float sums[kWordElements][4] = {};
#pragma unroll
      for (uint32_t step = piece * kPieceSteps; step < (piece + 1) * kPieceSteps; ++step) {
        if (step + 2 < kSplitSteps) load_values(values[(step + 2) % 3], step + 2, chunk);
        const Words4(&now)[4] = values[step % 3];
#pragma unroll
        for (uint32_t e = 0; e < kWordElements; ++e) {
          multiply_fragments(
              sums[e],
              weights[step],
              {pair_elements(now[0], now[1], e), pair_elements(now[2], now[3], e)}
          );
        }
      }
#pragma unroll
      for (uint32_t i = 0; i < kWordElements * 4; ++i) {
        float& output = outputs[i / 4][i % 4];
        output = piece == 0 ? sums[i / 4][i % 4] : output + sums[i / 4][i % 4];
      }
    }
  }

  // Of the split, to those of all splits so far.
  __device__ void merge_outputs(uint32_t split, uint32_t chunk, float (&outputs)[kWordElements][4])
      const {
#pragma unroll
    for (uint32_t e = 0; e < kWordElements; ++e) {
      Words4 state;
      if (split > 0) state = *output(chunk, e);
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const float before = float_from_bits(state.words[i]);
        if (split > 0) {
          const bool is_seen = num_seen_by(i / 2) > 0;
          outputs[e][i] = is_seen ? merge(factors_[i / 2], before, outputs[e][i]) : before;
        }
        state.words[i] = bits_from_float(outputs[e][i]);
      }
      *output(chunk, e) = state;
    }
  }

  // A lane has eight neighbouring dimensions of either row twice.
  __device__ void write(uint32_t chunk, const float (&outputs)[kWordElements][4]) const {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = group_ + i / 2 * 8;
      const uint32_t first = chunk + (t_ * 2 + i % 2) * kWordElements;
      if (row >= task_.num_rows() || first >= task_.head_dim()) continue;
      BFloat16Bits elements[kWordElements];
#pragma unroll
      for (uint32_t e = 0; e < kWordElements; ++e) {
        elements[e] = finished(outputs[e][i], sums_[i / 2]);
      }
      store(row, first, elements, kIsFull || task_.is_whole());
    }
  }

  // `is_whole`: as sixteen bytes.
  __device__ void store(
      uint32_t row, uint32_t first, const BFloat16Bits (&elements)[kWordElements], bool is_whole
  ) const {
    Words4 words;
#pragma unroll
    for (uint32_t e = 0; e < kWordElements; ++e) {
      const uint32_t dimension = first + e;
      words.words[e / 2] |= static_cast<uint32_t>(elements[e]) << (16 * (e % 2));
      if (is_whole || dimension >= task_.head_dim()) continue;
      task_.out()[task_.out_element(row, dimension)] = elements[e];
    }
    if (is_whole) task_.store_out(row, first, words);
  }

  const TileTask& task_;
  WalkMemory memory_;
  uint32_t group_ = lane_index() / 4;
  uint32_t t_ = lane_index() % 4;
  uint32_t next_rows_[kLaneRows];
  uint32_t seen_ends_[2];  // positions that either row sees
  float maxima_[2];        // of all splits so far
  float sums_[2];

  // Of the split.
  uint32_t begin_ = 0;  // its first position
  MergeFactors factors_[2] = {};
};

// Grid: KV heads of each four tiles, the last tiles first: of a prompt they take longest.
template <bool kIsFull>
__global__ void __launch_bounds__(kWalkThreads, 2) walk_kernel(PagedAttentionArgs args) {
  allow_next_kernel();
  const auto num_kv_heads = static_cast<uint32_t>(args.cache.num_kv_heads);
  const uint32_t index = gridDim.x - 1 - blockIdx.x;
  const size_t tile_index = size_t{index / num_kv_heads} * kWalkWarps + warp_index();
  const AttentionTile tile = tile_index < args.num_tiles ? args.tiles[tile_index] : AttentionTile{};
  const TileTask task(args, tile, index % num_kv_heads);
  if (tile.num_rows == 0) return wait_for_previous_kernel();
  TileWalk<kIsFull> walk(task);
  wait_for_previous_kernel();
  walk.run();
}

}  // namespace

void paged_attention(StreamHandle stream, const PagedAttentionArgs& args) {
  if (args.num_tiles == 0) return;
  check_attention_args(args);
  CHECK(args.q != nullptr, "attention's memory");
  const size_t num_blocks = div_ceil(args.num_tiles, size_t{kWalkWarps}) * args.cache.num_kv_heads;
  const size_t head_dim = args.cache.head_dim;
  const LaunchShape shape = {
      .grid = {grid_width(num_blocks)},
      .block = {kWalkThreads},
      .num_shared_bytes = kWalkWarps * WalkMemory(head_dim).num_bytes};
  launch(stream, shape, head_dim % kChunk == 0 ? walk_kernel<true> : walk_kernel<false>, args);
}

}  // namespace millrace::cuda
