#include "base/check.h"
#include "base/math.h"
#include "cuda/kernels/candidate.cuh"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/top_k.h"

namespace millrace::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kWarps = kThreads / kWarpThreads;
constexpr uint32_t kChunk = 8192;
constexpr uint32_t kThreadLogits = kChunk / kThreads;

// What the first kernel leaves of each chunk of each row.
struct Scratch {
  Candidate* candidates;  // [num_rows][num_chunks][k], in order
  RowSum* sums;           // [num_rows][num_chunks]
};

__host__ __device__ size_t num_chunks_of(size_t num_columns) {
  return (num_columns + kChunk - 1) / kChunk;
}

__host__ __device__ Scratch scratch_of(const TopKArgs& args) {
  auto* const candidates = static_cast<Candidate*>(args.scratch);
  const size_t count = args.num_rows * num_chunks_of(args.num_columns) * args.k;
  return {candidates, reinterpret_cast<RowSum*>(candidates + count)};
}

// One thread's logits of a chunk, those that were taken already left out.
class ThreadLogits {
 public:
  __device__ ThreadLogits(const float* row, size_t first, size_t num_columns) {
#pragma unroll
    for (uint32_t i = 0; i < kThreadLogits; ++i) {
      const size_t id = first + i * kThreads + threadIdx.x;
      const float value = id < num_columns ? row[id] : kMinusInfinity;
      values_[i] = value == value ? value : kMinusInfinity;
    }
    first_id_ = static_cast<uint32_t>(first) + threadIdx.x;
    num_columns_ = static_cast<uint32_t>(num_columns);
  }

  // The first one that comes after `taken`, in the order of all.
  __device__ Candidate first_after(const Candidate& taken, bool is_any_taken) const {
    Candidate best;
#pragma unroll
    for (uint32_t i = 0; i < kThreadLogits; ++i) {
      const Candidate candidate = {values_[i], first_id_ + i * kThreads};
      if (candidate.id >= num_columns_) continue;
      if (is_any_taken && !comes_before(taken, candidate)) continue;
      if (comes_before(candidate, best)) best = candidate;
    }
    return best;
  }

  __device__ float sum_of_exponentials(float maximum) const {
    float sum = 0.0F;
#pragma unroll
    for (uint32_t i = 0; i < kThreadLogits; ++i) {
      if (first_id_ + i * kThreads < num_columns_ && values_[i] > kMinusInfinity) {
        sum += exponential(values_[i] - maximum);
      }
    }
    return sum;
  }

 private:
  float values_[kThreadLogits];
  uint32_t first_id_;
  uint32_t num_columns_;
};

// Grid: chunks, rows. The k first of a chunk, one a turn: a thread looks again only when the last
// one was its own.
__global__ void __launch_bounds__(kThreads) chunk_kernel(TopKArgs args) {
  wait_for_previous_kernel();
  allow_next_kernel();
  auto* const shared = dynamic_shared<Candidate>(0, kWarps);
  float* const shared_sums = dynamic_shared<float>(kWarps * sizeof(Candidate), kWarps);
  const Scratch scratch = scratch_of(args);
  const size_t chunk = static_cast<size_t>(blockIdx.y) * gridDim.x + blockIdx.x;
  const size_t row_index =
      args.rows == nullptr ? blockIdx.y : static_cast<size_t>(args.rows[blockIdx.y]);
  const float* const row = args.logits + row_index * args.num_columns;
  const ThreadLogits logits(row, static_cast<size_t>(blockIdx.x) * kChunk, args.num_columns);

  Candidate mine = logits.first_after({}, false);
  float maximum = kMinusInfinity;
  for (size_t turn = 0; turn < args.k; ++turn) {
    const Candidate best = first_of_block(mine, shared);
    if (turn == 0) maximum = best.value;
    if (threadIdx.x == 0) scratch.candidates[chunk * args.k + turn] = best;
    if (best.id != kNoId && best.id == mine.id) mine = logits.first_after(best, true);
  }
  const float sum = sum_over_block(logits.sum_of_exponentials(maximum), shared_sums);
  if (threadIdx.x == 0) scratch.sums[chunk] = {maximum, sum};
}

__device__ RowSum merged_sum(const RowSum* sums, size_t num_chunks) {
  RowSum all = sums[0];
  for (size_t chunk = 1; chunk < num_chunks; ++chunk) {
    const RowSum next = sums[chunk];
    if (!(next.maximum > kMinusInfinity)) continue;
    const float maximum = larger(all.maximum, next.maximum);
    const float keep = all.sum * exponential(all.maximum - maximum);
    all = {maximum, fused_multiply_add(next.sum, exponential(next.maximum - maximum), keep)};
  }
  return all;
}

// The first candidate of the chunks that a lane has: chunks lane, lane + 32, ...
__device__ Candidate first_of_lane(
    const Candidate* candidates,
    size_t num_chunks,
    size_t k,
    const Candidate& taken,
    bool is_any_taken
) {
  Candidate best;
  for (size_t chunk = lane_index(); chunk < num_chunks; chunk += kWarpThreads) {
    for (size_t i = 0; i < k; ++i) {
      const Candidate candidate = candidates[chunk * k + i];
      if (candidate.id == kNoId) break;
      if (is_any_taken && !comes_before(taken, candidate)) continue;
      if (comes_before(candidate, best)) best = candidate;
      break;
    }
  }
  return best;
}

// Grid: rows; a warp each.
__global__ void __launch_bounds__(kWarpThreads) merge_kernel(TopKArgs args) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const size_t row = blockIdx.x;
  const size_t num_chunks = num_chunks_of(args.num_columns);
  const Scratch scratch = scratch_of(args);
  const Candidate* const candidates = scratch.candidates + row * num_chunks * args.k;
  Candidate mine = first_of_lane(candidates, num_chunks, args.k, {}, false);
  for (size_t turn = 0; turn < args.k; ++turn) {
    const Candidate best = first_of_warp(mine);
    if (lane_index() == 0) {
      args.values[row * args.k + turn] = best.value;
      args.ids[row * args.k + turn] = static_cast<int32_t>(best.id);
    }
    if (best.id == mine.id) mine = first_of_lane(candidates, num_chunks, args.k, best, true);
  }
  if (lane_index() == 0) args.sums[row] = merged_sum(scratch.sums + row * num_chunks, num_chunks);
}

}  // namespace

size_t top_k_scratch_bytes(size_t num_rows, size_t num_columns, size_t k) {
  return num_rows * num_chunks_of(num_columns) * (k * sizeof(Candidate) + sizeof(RowSum));
}

void top_k(StreamHandle stream, const TopKArgs& args) {
  if (args.num_rows == 0) return;
  CHECK(args.logits != nullptr && args.values != nullptr && args.ids != nullptr, "top_k's memory");
  CHECK(args.sums != nullptr && args.scratch != nullptr, "top_k's memory");
  CHECK(is_aligned(args.scratch), "16-byte memory");
  CHECK(args.num_columns > 0 && args.num_columns < 0x7FFFFFFF, "ids of 32 bits");
  CHECK(args.k > 0 && args.k <= kTopKMax && args.k <= args.num_columns, "as many as there are");
  launch(
      stream,
      {.grid = {grid_width(num_chunks_of(args.num_columns)), grid_height(args.num_rows)},
       .block = {kThreads},
       .num_shared_bytes = kWarps * (sizeof(Candidate) + sizeof(float))},
      chunk_kernel,
      args
  );
  launch(
      stream, {.grid = {grid_width(args.num_rows)}, .block = {kWarpThreads}}, merge_kernel, args
  );
}

}  // namespace millrace::cuda
