#include "base/siphash.h"

#include <array>
#include <bit>
#include <cstring>

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie");

struct State {
  uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }

  void compress(uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }

  uint64_t finish() {
    for (int i = 0; i < 4; ++i) round();
    return v0 ^ v1 ^ v2 ^ v3;
  }
};

}  // namespace

Hash128 siphash128(SipKey key, std::span<const std::byte> bytes) {
  State state = {
      .v0 = key.low ^ 0x736f6d6570736575,
      .v1 = key.high ^ 0x646f72616e646f6d ^ 0xee,
      .v2 = key.low ^ 0x6c7967656e657261,
      .v3 = key.high ^ 0x7465646279746573,
  };
  const size_t num_bytes = bytes.size();
  for (; bytes.size() >= sizeof(uint64_t); bytes = bytes.subspan(sizeof(uint64_t))) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof(word));
    state.compress(word);
  }
  const uint64_t last = static_cast<uint64_t>(num_bytes) << 56;
  std::array<std::byte, sizeof(uint64_t)> tail = {};
  if (!bytes.empty()) std::memcpy(tail.data(), bytes.data(), bytes.size());
  state.compress(last | std::bit_cast<uint64_t>(tail));

  state.v2 ^= 0xee;
  const uint64_t low = state.finish();
  state.v1 ^= 0xdd;
  return {.low = low, .high = state.finish()};
}

}  // namespace millrace
