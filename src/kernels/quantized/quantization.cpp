#include "kernels/quantized/quantization.h"

namespace millrace {
namespace {

constexpr std::string_view kW8A8 = "w8a8";
constexpr std::string_view kStored = "stored";

}  // namespace

std::string_view name_of(const Quantization& quantization) {
  if (quantization.keeps_codes()) return kStored;
  return quantization == Quantization::w8a8() ? kW8A8 : name_of(quantization.format);
}

std::optional<Quantization> quantization_from_name(std::string_view name) {
  if (name == kW8A8) return Quantization::w8a8();
  if (name == kStored) return Quantization::stored();
  return quantized_format_from_name(name);
}

}  // namespace millrace
