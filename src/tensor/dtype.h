// Element types as they lie in memory.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace millrace {

enum class DType { kFloat32, kFloat16, kBFloat16 };

[[nodiscard]] size_t size_of(DType dtype);

// "float32", "float16", "bfloat16": the spellings of `--dtype` and of config.json.
[[nodiscard]] std::string_view name_of(DType dtype);
[[nodiscard]] std::optional<DType> dtype_from_name(std::string_view name);

// The upper half of a float32.
struct BFloat16 {
  uint16_t bits = 0;
};

// IEEE 754 binary16.
struct Float16 {
  uint16_t bits = 0;
};

[[nodiscard]] constexpr float to_float(float value) {
  return value;
}
[[nodiscard]] constexpr float to_float(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}
[[nodiscard]] float to_float(Float16 value);

// Round to nearest, ties to even; NaN stays NaN.
[[nodiscard]] BFloat16 to_bfloat16(float value);
[[nodiscard]] Float16 to_float16(float value);

}  // namespace millrace
