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
// load can address, so that 8 tokens take 4 registers. Where a product reads memory itself, each
// has a pointer: Intel's processors part an instruction of three operands and an index.
template <size_t kTokens, size_t kRowsOfPointer = 3>
struct TokenRows {
  const unsigned char* pointers[(kTokens + kRowsOfPointer - 1) / kRowsOfPointer];
  size_t stride;

  [[gnu::always_inline]] void begin_at(const unsigned char* first_row) {
#pragma GCC unroll 12
    for (const unsigned char*& pointer : pointers) {
      pointer = first_row;
      first_row += kRowsOfPointer * stride;
    }
  }
  [[gnu::always_inline]] const unsigned char* row(size_t token) const {
    return pointers[token / kRowsOfPointer] + token % kRowsOfPointer * stride;
  }
  // In each turn of a loop. Left to itself the compiler computes all addresses before it and runs
  // out of registers for them: 200 instructions a tile.
  [[gnu::always_inline]] void forget_origins() {
    if constexpr (kRowsOfPointer > 1) forget_origin(stride);
#pragma GCC unroll 12
    for (const unsigned char*& pointer : pointers) forget_origin(pointer);
  }
  [[gnu::always_inline]] void advance(size_t num_bytes) {
#pragma GCC unroll 12
    for (const unsigned char*& pointer : pointers) pointer += num_bytes;
  }
};

}  // namespace
}  // namespace millrace
