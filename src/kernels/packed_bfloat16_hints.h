// Asking memory for blocks of packed_bfloat16.h. See lanes.h for the rules of this file.
#pragma once

#include <cstdint>

#include "kernels/packed_bfloat16_layout.h"

namespace millrace {
namespace {

// kLocality: 2 for the second-level cache, 3 for the first.
template <int kLocality>
[[gnu::always_inline]] inline void ask_for_block(const uint8_t* block) {
  static_assert(kPackedBlockBytes == 3 * 64);
  __builtin_prefetch(block, 0, kLocality);
  __builtin_prefetch(block + 64, 0, kLocality);
  __builtin_prefetch(block + 128, 0, kLocality);
}

}  // namespace
}  // namespace millrace
