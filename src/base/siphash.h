// SipHash-2-4 with 128 bits of output (J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast
// short-input PRF"; the 128-bit variant is the authors' reference code): who does not know the key
// can neither foresee a hash nor construct two inputs with the same one.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace millrace {

struct SipKey {
  uint64_t low = 0;
  uint64_t high = 0;
};

struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

Hash128 siphash128(SipKey key, std::span<const std::byte> bytes);

}  // namespace millrace

// Its bits are as good as random already.
template <>
struct std::hash<millrace::Hash128> {
  size_t operator()(const millrace::Hash128& value) const noexcept {
    return static_cast<size_t>(value.low);
  }
};
