// Which version of an operator runs: one for each element type and instruction set.
#pragma once

#include "kernels/isa.h"
#include "tensor/dtype.h"

namespace millrace {

// The versions for one element type.
template <class Function>
struct IsaVersions {
  Function reference;
  Function avx2;
  Function avx512;
  Function avx512_vnni = nullptr;    // null: as avx512
  Function avx512_dot = nullptr;     // null: as avx512_vnni
  Function amx = nullptr;            // null: as avx512_dot
  Function amx_reference = nullptr;  // null: reference

  constexpr Function find(Isa isa) const {
    switch (isa) {
      case Isa::kReference:
        return reference;
      case Isa::kAmxReference:
        return amx_reference != nullptr ? amx_reference : reference;
      case Isa::kAvx2:
        return avx2;
      case Isa::kAvx512:
        return avx512;
      case Isa::kAvx512Vnni:
        return avx512_vnni != nullptr ? avx512_vnni : avx512;
      case Isa::kAvx512Dot:
        return avx512_dot != nullptr ? avx512_dot : find(Isa::kAvx512Vnni);
      case Isa::kAmx:
        return amx != nullptr ? amx : find(Isa::kAvx512Dot);
    }
    return reference;
  }
};

template <class Function>
struct KernelVersions {
  IsaVersions<Function> float32;
  IsaVersions<Function> float16;
  IsaVersions<Function> bfloat16;

  constexpr Function find(Isa isa, DType dtype) const {
    switch (dtype) {
      case DType::kFloat32:
        return float32.find(isa);
      case DType::kFloat16:
        return float16.find(isa);
      case DType::kBFloat16:
        return bfloat16.find(isa);
    }
    return float32.find(isa);
  }
};

}  // namespace millrace
