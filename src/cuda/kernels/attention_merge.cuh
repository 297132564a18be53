// How splits of a row's context go into one result, in ascending order. See paged_attention.h.
#pragma once

#include "cuda/kernels/arithmetic.cuh"

namespace millrace::cuda {

// How the results of all splits before, and that of the next one, go into those of both.
struct MergeFactors {
  float maximum;
  float keep;
  float add;
};

__device__ inline MergeFactors merge_factors(float old_maximum, float maximum) {
  const float merged = larger(old_maximum, maximum);
  return {merged, exponential(old_maximum - merged), exponential(maximum - merged)};
}

__device__ inline float merge(const MergeFactors& factors, float old_value, float value) {
  return fused_multiply_add(value, factors.add, old_value * factors.keep);
}

__device__ inline BFloat16Bits finished(float output, float sum) {
  return bfloat16_from_float(output / (sum == 0.0F ? 1.0F : sum));
}

}  // namespace millrace::cuda
