#include "tensor/dtype.h"

#include <array>
#include <utility>

#include "base/check.h"

namespace millrace {
namespace {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  size_t size;
};

constexpr std::array kDTypes = {
    DTypeInfo{DType::kFloat32, "float32", 4},
    DTypeInfo{DType::kFloat16, "float16", 2},
    DTypeInfo{DType::kBFloat16, "bfloat16", 2},
};

const DTypeInfo& info_of(DType dtype) {
  return kDTypes[static_cast<size_t>(dtype)];
}

}  // namespace

size_t size_of(DType dtype) {
  return info_of(dtype).size;
}
std::string_view name_of(DType dtype) {
  return info_of(dtype).name;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeInfo& info : kDTypes) {
    if (info.name == name) return info.dtype;
  }
  return std::nullopt;
}

float to_float(Float16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000U) << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1FU;
  const uint32_t mantissa = value.bits & 0x3FFU;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Zero or subnormal: mantissa * 2^-24, exact in float32.
  const float magnitude = static_cast<float>(mantissa) * 0x1.0p-24F;
  return sign != 0 ? -magnitude : magnitude;
}

BFloat16 to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
    return {static_cast<uint16_t>((bits >> 16) | 0x40U)};  // quiet, and never an infinity
  }
  return {static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16)};
}

Float16 to_float16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return {static_cast<uint16_t>(sign | 0x7E00U)};
  if (magnitude >= 0x477FF000U)
    return {static_cast<uint16_t>(sign | 0x7C00U)};  // rounds past 65504
  if (magnitude < 0x38800000U) {  // below 2^-14: subnormal; the addition rounds at 2^-24
    const float rounded = std::bit_cast<float>(magnitude) + 0.5F;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3F000000U))};
  }
  const uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13) & 1U);
  return {static_cast<uint16_t>(sign | ((rounded - 0x38000000U) >> 13))};
}

}  // namespace millrace
