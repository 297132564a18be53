#include "kernels/exp.h"

#include "kernels/exp_kernel.h"

namespace millrace {

void exp_in_place(Isa isa, std::span<float> values) {
  switch (isa) {
    case Isa::kReference:
    case Isa::kAmxReference:
      return exp_in_place_reference(values.data(), values.size());
    case Isa::kAvx2:
      return exp_in_place_avx2(values.data(), values.size());
    case Isa::kAvx512:
    case Isa::kAvx512Vnni:
    case Isa::kAvx512Dot:
    case Isa::kAmx:
      return exp_in_place_avx512(values.data(), values.size());
  }
}

}  // namespace millrace
