// How a tile of linear_quantized reads memory: its groups, and the weights of later tiles. See
// lanes.h for the rules of this file.
#pragma once

#include <cstddef>

#include "kernels/token_rows_lanes.h"

namespace millrace {
namespace {

// Whether there is a product whose inputs come out of memory (group_weights_lanes.h).
template <class Dots>
constexpr bool kReadsInputs = requires {
  &Dots::dot_at;
};

// Where one group of a tile lies.
template <class Dots, size_t kPanels, size_t kTokens>
struct GroupPlace {
  const unsigned char* weights[kPanels];
  TokenRows<kTokens, kPanels == 1 && kReadsInputs<Dots> ? 1 : 3> inputs;

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
// the first to read. So many go with each group, one by one between its products where the tile
// calls ask_at(): all at once they take the places of the first cache's own misses, which then wait
// for memory too.
struct WeightsAhead {
  const unsigned char* data = nullptr;
  size_t lines_per_group = 0;
  bool is_soon = false;  // so that they come into the first cache, not into the second

  // Before product `step` of `num_steps`, at which a line of this group may be asked for: at every
  // other first.
  [[gnu::always_inline]] void ask_at(size_t step, size_t num_steps) const {
    ask(step % 2 == 0 ? step / 2 : (num_steps + step) / 2);
  }
  // After them: the lines beyond so many. On to those of the next group.
  [[gnu::always_inline]] void ask_for_rest(size_t num_steps) {
    for (size_t line = num_steps; line < lines_per_group; ++line) ask(line);
    data += lines_per_group * 64;
  }

 private:
  [[gnu::always_inline]] void ask(size_t line) const {
    if (line >= lines_per_group) return;
    const unsigned char* p = data + line * 64;
    is_soon ? __builtin_prefetch(p, 0, 3) : __builtin_prefetch(p, 0, 2);
  }
};

// For weights that are read once, into the first cache.
template <size_t kNumBytes>
[[gnu::always_inline]] inline void ask_for_bytes(const unsigned char* data) {
#pragma GCC unroll 16
  for (size_t i = 0; i < kNumBytes; i += 64) __builtin_prefetch(data + i, 0, 3);
}

}  // namespace
}  // namespace millrace
