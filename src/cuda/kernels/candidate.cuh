// Values with their ids, and the first of many: the larger value; of equal ones the lower id.
#pragma once

#include "cuda/kernels/arithmetic.cuh"

namespace millrace::cuda {

// Beyond every id: nothing is there.
constexpr uint32_t kNoId = 0xFFFFFFFF;

struct Candidate {
  float value = kMinusInfinity;
  uint32_t id = kNoId;
};

// A total order: no two candidates of a row have the same id.
__device__ inline bool comes_before(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

__device__ inline Candidate first_of_warp(Candidate candidate) {
  for (uint32_t mask = kWarpThreads / 2; mask > 0; mask /= 2) {
    const Candidate other = {shuffle_xor(candidate.value, mask), shuffle_xor(candidate.id, mask)};
    if (comes_before(other, candidate)) candidate = other;
  }
  return candidate;
}

// The block's first candidate, to every thread. `shared`: [num_warps].
__device__ inline Candidate first_of_block(const Candidate& candidate, Candidate* shared) {
  const Candidate of_warp = first_of_warp(candidate);
  sync_block();  // the turn before has been read
  if (lane_index() == 0) shared[warp_index()] = of_warp;
  sync_block();
  Candidate best = shared[0];
  for (uint32_t warp = 1; warp < num_warps(); ++warp) {
    if (comes_before(shared[warp], best)) best = shared[warp];
  }
  return best;
}

}  // namespace millrace::cuda
