// Which instructions an operator may use. Chosen once by whoever makes the model and passed down.
// Every choice gives the same bits, so it is a matter of speed and of testing alone, but for one:
// AMX multiplies bfloat16, int8 and int4 matrices in its own way (docs/decisions/0020).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace millrace {

enum class Isa {
  kReference,     // plain C++ with std::fma: slow, and the definition of every result
  kAmxReference,  // the same for kAmx
  kAvx2,          // AVX2, FMA, F16C
  kAvx512,        // AVX-512 F, BW, DQ, VL
  kAvx512Vnni,    // and dot products of bytes: AVX-512 VNNI
  kAvx512Dot,     // and of bfloat16: AVX-512 BF16
  kAmx,           // and tiles: AMX-INT8 and AMX-BF16; AVX-512 FP16 and VBMI
};

// The one that defines the bits of `isa`.
[[nodiscard]] constexpr Isa reference_of(Isa isa) {
  return isa == Isa::kAmx || isa == Isa::kAmxReference ? Isa::kAmxReference : Isa::kReference;
}

// Whether it is one of those: plain loops, and slow.
[[nodiscard]] constexpr bool is_reference(Isa isa) {
  return isa == reference_of(isa);
}

// "reference", "amx-reference", "avx2", "avx512", "avx512-vnni", "avx512-dot", "amx".
[[nodiscard]] std::string_view name_of(Isa isa);

// Those that this processor and its system can run, each with what those before it need; never
// empty.
[[nodiscard]] std::span<const Isa> supported_isas();

// The fastest of them that is not emulated: the last, but that processors that prefer floats leave
// vdpbf16ps alone where they have no tiles. The first call asks the system to let this process use
// tiles, where there are any.
[[nodiscard]] Isa best_isa();

// Whether this processor is taken to multiply more floats a second (vfmadd) than bfloat16
// (vdpbf16ps): Intel's are, of which two were measured (docs/decisions/0035).
[[nodiscard]] bool prefers_floats();

// Only programs of tests have it (src/emulated_amx): from now on what kAmx has that this processor,
// which can run kAvx512Dot, has not is carried out by this process. False: it can't.
[[gnu::weak]] bool emulate_amx();

// Whether this processor is taken to multiply bfloat16 weights faster out of 16 bits than out of 12
// (docs/decisions/0036): Zen 1, which is held up by unpacking them.
[[nodiscard]] bool prefers_whole_bfloat16();

// How far ahead of what they multiply kernels ask for weights, into the first cache: those of
// quantized matrices for few tokens, which then read panels in the order in which they lie, and
// those of bfloat16 matrices, for few (AVX2) or for many (AVX-512 BF16). 0: they leave it to the
// processor, or have shorter hints of their own. What this processor was measured to be fastest
// with (docs/decisions/0021): 12 KiB on Zen 5, 1.5 on Zen 3, 0.75 on Zen 1, 4 on Intel's with
// AVX-512 BF16 and without tiles, 0 elsewhere. No bit of a result depends on it.
[[nodiscard]] size_t best_hint_bytes();

}  // namespace millrace
