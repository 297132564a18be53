#include "checkpoint/dequantize.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little, "files are read as they lie");

constexpr size_t kBlockElements = 32;
constexpr size_t kHalfBlock = kBlockElements / 2;

uint16_t load_u16(const std::byte* from) {
  uint16_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// to_float(Float16) without branches, so that a loop over it becomes vector code: as a float the
// bits are too small by 2^112, whether the half is subnormal or not, and the product is exact.
float half_to_float(uint16_t half) {
  const uint32_t magnitude = half & 0x7FFFU;
  const auto sign = static_cast<uint32_t>(half & 0x8000U) << 16;
  const uint32_t infinite = magnitude > 0x7BFFU ? 0x7F800000U : 0U;
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1.0p112F;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | infinite | sign);
}

void dequantize_f32(const std::byte* stored, std::span<float> out) {
  if (!out.empty()) std::memcpy(out.data(), stored, out.size_bytes());
}

void dequantize_f16(const std::byte* stored, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = half_to_float(load_u16(stored + 2 * i));
}

void dequantize_bf16(const std::byte* stored, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = std::bit_cast<float>(static_cast<uint32_t>(load_u16(stored + 2 * i)) << 16);
  }
}

void dequantize_q8_0(const std::byte* block, std::span<float> out) {
  for (size_t begin = 0; begin < out.size(); begin += kBlockElements, block += 34) {
    const float scale = half_to_float(load_u16(block));
    int8_t quants[kBlockElements];
    std::memcpy(quants, block + 2, sizeof quants);
    float* x = out.data() + begin;
    for (size_t i = 0; i < kBlockElements; ++i) x[i] = scale * static_cast<float>(quants[i]);
  }
}

void dequantize_q4_0(const std::byte* block, std::span<float> out) {
  for (size_t begin = 0; begin < out.size(); begin += kBlockElements, block += 18) {
    const float scale = half_to_float(load_u16(block));
    uint8_t quants[kHalfBlock];
    std::memcpy(quants, block + 2, sizeof quants);
    float* x = out.data() + begin;
    for (size_t i = 0; i < kHalfBlock; ++i) {
      x[i] = scale * static_cast<float>((quants[i] & 0x0F) - 8);
      x[i + kHalfBlock] = scale * static_cast<float>((quants[i] >> 4) - 8);
    }
  }
}

void dequantize_q4_1(const std::byte* block, std::span<float> out) {
  for (size_t begin = 0; begin < out.size(); begin += kBlockElements, block += 20) {
    const float scale = half_to_float(load_u16(block));
    const float minimum = half_to_float(load_u16(block + 2));
    uint8_t quants[kHalfBlock];
    std::memcpy(quants, block + 4, sizeof quants);
    float* x = out.data() + begin;
    for (size_t i = 0; i < kHalfBlock; ++i) {
      x[i] = scale * static_cast<float>(quants[i] & 0x0F) + minimum;
      x[i + kHalfBlock] = scale * static_cast<float>(quants[i] >> 4) + minimum;
    }
  }
}

}  // namespace

BlockLayout block_layout(StorageType storage) {
  switch (storage) {
    case StorageType::kF32:
      return {.block_elements = 1, .block_bytes = 4};
    case StorageType::kF16:
    case StorageType::kBF16:
      return {.block_elements = 1, .block_bytes = 2};
    case StorageType::kQ8_0:
      return {.block_elements = kBlockElements, .block_bytes = 34};
    case StorageType::kQ4_0:
      return {.block_elements = kBlockElements, .block_bytes = 18};
    case StorageType::kQ4_1:
      return {.block_elements = kBlockElements, .block_bytes = 20};
    case StorageType::kOther:
      break;
  }
  CHECK(false, "a storage type without a layout");
  return {};
}

void dequantize(StorageType storage, std::span<const std::byte> stored, std::span<float> out) {
  const BlockLayout layout = block_layout(storage);
  CHECK(
      out.size() % layout.block_elements == 0 &&
          stored.size() == out.size() / layout.block_elements * layout.block_bytes,
      "stored bytes and elements do not belong together"
  );
  switch (storage) {
    case StorageType::kF32:
      return dequantize_f32(stored.data(), out);
    case StorageType::kF16:
      return dequantize_f16(stored.data(), out);
    case StorageType::kBF16:
      return dequantize_bf16(stored.data(), out);
    case StorageType::kQ8_0:
      return dequantize_q8_0(stored.data(), out);
    case StorageType::kQ4_0:
      return dequantize_q4_0(stored.data(), out);
    case StorageType::kQ4_1:
      return dequantize_q4_1(stored.data(), out);
    case StorageType::kOther:
      return;
  }
}

}  // namespace millrace
