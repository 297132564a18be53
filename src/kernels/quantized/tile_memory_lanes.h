// How a tile of linear_quantized reads memory: the rows of its tokens, and the weights of later
// tiles. See lanes.h for the rules of this file.
#pragma once

#include <cstddef>

namespace millrace {
namespace {

// The compiler may compute nothing from what `value` was before.
template <class T>
[[gnu::always_inline]] inline void forget_origin(T& value) {
  asm volatile("" : "+r"(value));
}

// The rows of kTokens tokens. A pointer for every third one and the distance between two are what a
// load can address, so that 8 tokens take 4 registers. Left to itself the compiler computes all
// addresses before a loop and runs out of registers for them: 200 instructions a tile.
template <size_t kTokens>
struct TokenRows {
  const unsigned char* every_third[(kTokens + 2) / 3];
  size_t stride;

  [[gnu::always_inline]] void begin_at(const unsigned char* first_row) {
#pragma GCC unroll 4
    for (const unsigned char*& pointer : every_third) {
      pointer = first_row;
      first_row += 3 * stride;
    }
  }
  [[gnu::always_inline]] const unsigned char* row(size_t token) const {
    return every_third[token / 3] + token % 3 * stride;
  }
  [[gnu::always_inline]] void advance(size_t num_bytes) {
#pragma GCC unroll 4
    for (const unsigned char*& pointer : every_third) pointer += num_bytes;
  }
};

// Where one group of a tile lies.
template <size_t kPanels, size_t kTokens>
struct GroupPlace {
  const unsigned char* weights[kPanels];
  TokenRows<kTokens> inputs;

  // Where the compiler sees what is between two panels, it keeps the sum of that and of each load's
  // offset, and sums of products in memory for want of registers.
  [[gnu::always_inline]] void weights_at(const unsigned char* first, size_t panel_bytes) {
#pragma GCC unroll 8
    for (size_t panel = 0; panel < kPanels; ++panel) {
      weights[panel] = first + panel * panel_bytes;
      if constexpr (kPanels > 1) forget_origin(weights[panel]);
    }
  }
};

// Lines of weights that a tile asks memory for while it computes: a share of what later tiles are
// the first to read. A few with each group, because all at once they take the places of the first
// cache's own misses, which then wait for memory too.
struct WeightsAhead {
  const unsigned char* data = nullptr;
  size_t num_lines = 0;
  bool is_soon = false;  // so that they come into the first cache, not into the second
};

// For weights that are read once, into the first cache.
template <size_t kNumBytes>
[[gnu::always_inline]] inline void ask_for_bytes(const unsigned char* data) {
#pragma GCC unroll 16
  for (size_t i = 0; i < kNumBytes; i += 64) __builtin_prefetch(data + i, 0, 3);
}

// For the next num_lines.
[[gnu::always_inline]] inline void ask_for_weights(
    const WeightsAhead& ahead, size_t& next_line, size_t num_lines
) {
  for (size_t i = 0; i < num_lines && next_line < ahead.num_lines; ++i, ++next_line) {
    const unsigned char* line = ahead.data + next_line * 64;
    ahead.is_soon ? __builtin_prefetch(line, 0, 3) : __builtin_prefetch(line, 0, 2);
  }
}

}  // namespace
}  // namespace millrace
