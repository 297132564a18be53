// Sixteen bytes, as one instruction of a device moves them. CUDA-free.
#pragma once

#include <cstdint>

namespace millrace::cuda {

struct alignas(16) Words4 {
  uint32_t words[4] = {};
};

}  // namespace millrace::cuda
