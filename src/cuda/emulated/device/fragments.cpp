// multiply_fragments on the processor: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32, with
// the elements of each lane as the PTX ISA lays them out ("Matrix Fragments for mma.m16n8k16 with
// floating point type"). The order of a sum is ours: a device adds in one that is not documented.
#include "cuda_device.h"

namespace millrace::cuda::emulated {
namespace {

constexpr uint32_t kRows = 16;
constexpr uint32_t kColumns = 8;
constexpr uint32_t kDepth = 16;

float lower_half(uint32_t pair) {
  return std::bit_cast<float>(pair << 16);
}
float upper_half(uint32_t pair) {
  return std::bit_cast<float>(pair & 0xFFFF0000U);
}

}  // namespace

void exchange_fragments(LaneOperands& operands) {
  float a[kRows][kDepth];
  float b[kDepth][kColumns];
  for (uint32_t lane = 0; lane < kWarpThreads; ++lane) {
    const auto& operand = *static_cast<const FragmentOperand*>(operands[lane]);
    const uint32_t group = lane / 4;
    const uint32_t pair = lane % 4 * 2;
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = group + i % 2 * 8;
      const uint32_t k = pair + i / 2 * 8;
      a[row][k] = lower_half(operand.a[i]);
      a[row][k + 1] = upper_half(operand.a[i]);
    }
    for (uint32_t i = 0; i < 2; ++i) {
      b[pair + i * 8][group] = lower_half(operand.b[i]);
      b[pair + i * 8 + 1][group] = upper_half(operand.b[i]);
    }
  }
  for (uint32_t lane = 0; lane < kWarpThreads; ++lane) {
    const auto& operand = *static_cast<const FragmentOperand*>(operands[lane]);
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = lane / 4 + i / 2 * 8;
      const uint32_t column = lane % 4 * 2 + i % 2;
      float sum = operand.sums[i];
      for (uint32_t k = 0; k < kDepth; ++k) sum += a[row][k] * b[k][column];
      operand.sums[i] = sum;
    }
  }
}

}  // namespace millrace::cuda::emulated
