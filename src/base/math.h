// Integer arithmetic said on purpose.
#pragma once

#include <concepts>
#include <optional>

namespace millrace {

template <std::integral T>
constexpr T div_ceil(T dividend, T divisor) {
  return static_cast<T>(dividend / divisor + (dividend % divisor != 0 ? 1 : 0));
}

template <std::integral T>
constexpr T round_up(T value, T multiple) {
  return static_cast<T>(div_ceil(value, multiple) * multiple);
}

// nullopt when the result does not fit: for every size that a file or a client names.
template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_mul(T a, T b) {
  T result;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_add(T a, T b) {
  T result;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

}  // namespace millrace
