// The instructions of kAmx that a processor without AMX refuses, as their bytes say them: those of
// tiles, and of AVX-512 FP16 what the kernels use. Intel's manual, volume 2: "VEX Prefix", "EVEX
// Encoding", and the pages of each.
#pragma once

#include <cstdint>
#include <optional>

namespace millrace::emulated_amx {

enum class Operation {
  kLoadTileConfig,   // ldtilecfg m512
  kReleaseTiles,     // tilerelease
  kLoadTile,         // tileloadd, tileloaddt1 tmm, sibmem
  kStoreTile,        // tilestored sibmem, tmm
  kClearTile,        // tilezero tmm
  kAddByteProducts,  // tdpbssd tmm, tmm, tmm
  kAddPairProducts,  // tdpbf16ps tmm, tmm, tmm
  kWordsToHalf,      // vcvtw2ph zmm, zmm
  kUnsignedToHalf,   // vcvtuw2ph zmm, zmm
  kMultiplyAdd132,   // vfmadd132ph zmm, zmm, zmm: a = a * c + b
  kMultiplyAdd213,   // vfmadd213ph zmm, zmm, zmm: a = b * a + c
  kMultiplyAdd231,   // vfmadd231ph zmm, zmm, zmm: a = b * c + a
};

// Numbers of general registers are those of the instruction set: 0 is rax, 4 rsp, 15 r15.
struct MemoryOperand {
  std::optional<unsigned> base;
  std::optional<unsigned> index;  // of a tile: what holds the bytes from a row to the next
  unsigned scale = 1;
  int32_t displacement = 0;
  bool is_from_next = false;  // `displacement` counts from the next instruction
};

struct Instruction {
  Operation operation = Operation::kReleaseTiles;
  unsigned size = 0;  // bytes
  // Tiles or zmm registers, in the order of Intel's manual.
  unsigned first = 0;
  unsigned second = 0;
  unsigned third = 0;
  std::optional<MemoryOperand> memory;  // in the place of a register
};

// nullopt: none of them, or in a form that the kernels' compilers do not write (with masks, with a
// rounding of its own, fp16 in memory). Reads no byte behind the instruction's last.
[[nodiscard]] std::optional<Instruction> decode(const uint8_t* bytes);

}  // namespace millrace::emulated_amx
