#include "emulated_amx/instruction.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

// What the assembler makes of them, one after the other.
asm(R"(
  .pushsection .rodata
amx_instructions:
  ldtilecfg -8(%rsp)
  tilerelease
  tilezero %tmm5
  tileloadd (%rax,%rcx,1), %tmm1
  tileloadd 64(%r12,%r13,2), %tmm7
  tileloaddt1 -4096(%rbp,%r9,8), %tmm0
  tilestored %tmm3, 1024(%rsp,%rdx,1)
  tdpbssd %tmm3, %tmm2, %tmm1
  tdpbf16ps %tmm7, %tmm6, %tmm5
  ldtilecfg 16(%rip)
  vcvtw2ph %zmm9, %zmm31
  vcvtuw2ph %zmm17, %zmm2
  vfmadd132ph %zmm30, %zmm12, %zmm5
  vfmadd213ph %zmm1, %zmm20, %zmm8
  vfmadd231ph %zmm9, %zmm3, %zmm19
amx_instructions_end:
others:
  ud2
  vfmadd231ph %ymm9, %ymm3, %ymm1
  vfmadd231ph %zmm9, %zmm3, %zmm1{%k1}
  vfmadd231ph {rn-sae}, %zmm9, %zmm3, %zmm1
  vfmadd231ph (%rax), %zmm3, %zmm1
  vaddps %zmm9, %zmm3, %zmm1
  vaddps %xmm9, %xmm3, %xmm1
others_end:
  .popsection
)");

extern "C" const uint8_t amx_instructions[];
extern "C" const uint8_t amx_instructions_end[];
extern "C" const uint8_t others[];

namespace millrace::emulated_amx {
namespace {

std::string name_of(const std::optional<unsigned>& general) {
  return general ? fmt::format("r{}", *general) : "";
}

// "operation: first second third", or "operation: first displacement(base,index,scale)".
std::string text_of(const Instruction& instruction) {
  const auto [operation, size, first, second, third, memory] = instruction;
  const int number = static_cast<int>(operation);
  if (!memory) return fmt::format("{}: {} {} {}", number, first, second, third);
  return fmt::format(
      "{}: {} {}({},{},{}){}",
      number,
      first,
      memory->displacement,
      name_of(memory->base),
      name_of(memory->index),
      memory->scale,
      memory->is_from_next ? " from next" : ""
  );
}

TEST(Instruction, IsWhatTheAssemblerWrote) {
  const std::vector<std::string> expected = {
      "0: 0 -8(r4,,1)",
      "1: 0 0 0",
      "4: 5 0 0",
      "2: 1 0(r0,r1,1)",
      "2: 7 64(r12,r13,2)",
      "2: 0 -4096(r5,r9,8)",
      "3: 3 1024(r4,r2,1)",
      "5: 1 2 3",
      "6: 5 6 7",
      "0: 0 16(,,1) from next",
      "7: 31 9 9",
      "8: 2 17 17",
      "9: 5 12 30",
      "10: 8 20 1",
      "11: 19 3 9",
  };
  const uint8_t* next = amx_instructions;
  for (const std::string& text : expected) {
    const std::optional<Instruction> instruction = decode(next);
    ASSERT_TRUE(instruction.has_value()) << text;
    EXPECT_EQ(text_of(*instruction), text);
    next += instruction->size;
  }
  EXPECT_EQ(next, amx_instructions_end);
}

TEST(Instruction, IsNothingElse) {
  // Their sizes, as no decoder says them here.
  const uint8_t* next = others;
  for (const size_t size : {2U, 6U, 6U, 6U, 6U, 6U, 5U}) {
    EXPECT_FALSE(decode(next).has_value()) << "at " << next - others;
    next += size;
  }
}

}  // namespace
}  // namespace millrace::emulated_amx
