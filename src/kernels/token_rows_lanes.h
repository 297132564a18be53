// The rows of a tile's tokens, as loads address them. See lanes.h for the rules of this file.
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
// load can address, so that 8 tokens take 4 registers.
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
  // In each turn of a loop. Left to itself the compiler computes all addresses before it and runs
  // out of registers for them: 200 instructions a tile.
  [[gnu::always_inline]] void forget_origins() {
    forget_origin(stride);
#pragma GCC unroll 4
    for (const unsigned char*& pointer : every_third) forget_origin(pointer);
  }
  [[gnu::always_inline]] void advance(size_t num_bytes) {
#pragma GCC unroll 4
    for (const unsigned char*& pointer : every_third) pointer += num_bytes;
  }
};

}  // namespace
}  // namespace millrace
