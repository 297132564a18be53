// What the block formats are made of: halves, bytes, and the sixteen values of IQ4.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace millrace::blocks {

static_assert(std::endian::native == std::endian::little, "files are read as they lie");

template <size_t N>
std::array<uint8_t, N> load_bytes(const std::byte* from) {
  std::array<uint8_t, N> bytes;
  std::memcpy(bytes.data(), from, N);
  return bytes;
}

inline uint16_t load_u16(const std::byte* from) {
  uint16_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

inline uint32_t load_u32(const std::byte* from) {
  uint32_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// to_float(Float16) without branches, so that a loop over it becomes vector code: as a float the
// bits are too small by 2^112, whether the half is subnormal or not, and the product is exact.
inline float half_to_float(uint16_t half) {
  const uint32_t magnitude = half & 0x7FFFU;
  const auto sign = static_cast<uint32_t>(half & 0x8000U) << 16;
  const uint32_t infinite = magnitude > 0x7BFFU ? 0x7F800000U : 0U;
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1.0p112F;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | infinite | sign);
}

inline float load_half(const std::byte* from) {
  return half_to_float(load_u16(from));
}

// What the codes of IQ4_NL and IQ4_XS stand for.
constexpr std::array<float, 16> kIq4Values = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// Those with 128 added.
constexpr std::array<uint8_t, 16> kIq4Codes = [] {
  std::array<uint8_t, 16> codes{};
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(kIq4Values[i] + 128.0F);
  return codes;
}();

}  // namespace millrace::blocks
