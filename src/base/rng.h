// Random numbers that are a pure function of (key, counter), so that a draw depends on nothing but
// its own place: no state to share, to save or to restore. SplitMix64's finalizer (Steele, Lea,
// Flood 2014), keyed and applied twice.
#pragma once

#include <cstdint>

namespace millrace {

constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Uniform 64 bits.
constexpr uint64_t random_bits(uint64_t key, uint64_t counter) {
  return mix64(mix64(key) ^ mix64(counter + 0x632be59bd9b4e019ULL));
}

// Uniform in [0, 1), 53 bits.
constexpr double random_unit(uint64_t key, uint64_t counter) {
  return static_cast<double>(random_bits(key, counter) >> 11) * 0x1.0p-53;
}

// A sequence of draws, for tests and generators of data.
class Rng {
 public:
  explicit constexpr Rng(uint64_t seed) : key_(seed) {}
  constexpr uint64_t next() { return random_bits(key_, counter_++); }
  constexpr double unit() { return random_unit(key_, counter_++); }
  // Uniform in [0, bound); REQUIRES: bound > 0. The bias of the modulus is below 2^-32 for small
  // bounds.
  constexpr uint64_t below(uint64_t bound) { return next() % bound; }

 private:
  uint64_t key_;
  uint64_t counter_ = 0;
};

}  // namespace millrace
