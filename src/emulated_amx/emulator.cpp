// Carries out the instructions of kAmx on a processor without AMX, so that its kernels are tested
// there too, bit by bit: the processor refuses each of them, Linux sends SIGILL, and the handler
// does to the thread's saved registers, and to tiles of its own, what the instruction says. A
// microsecond or two for each: for tests, not for use.
#include <array>
#include <csignal>

#include "base/check.h"
#include "emulated_amx/half.h"
#include "emulated_amx/instruction.h"
#include "emulated_amx/saved_registers.h"
#include "emulated_amx/tiles.h"
#include "kernels/isa.h"

namespace millrace {
namespace emulated_amx {
namespace {

thread_local constinit Tiles tiles;

uint8_t* address_of(
    const MemoryOperand& memory, const SavedRegisters& registers, const Instruction& instruction
) {
  uint64_t address = static_cast<uint64_t>(int64_t{memory.displacement});
  if (memory.base) address += registers.general(*memory.base);
  if (memory.is_from_next) {
    address += reinterpret_cast<uint64_t>(registers.instruction()) + instruction.size;
  }
  return reinterpret_cast<uint8_t*>(address);
}

// What index and scale come to: of a tile, from one row to the next; else a part of the address.
ptrdiff_t stride_of(const MemoryOperand& memory, const SavedRegisters& registers) {
  if (!memory.index) return 0;
  return static_cast<ptrdiff_t>(registers.general(*memory.index) * memory.scale);
}

void run_on_tiles(const Instruction& instruction, const SavedRegisters& registers) {
  const auto [operation, size, first, second, third, memory] = instruction;
  uint8_t* const data = memory ? address_of(*memory, registers, instruction) : nullptr;
  const ptrdiff_t stride = memory ? stride_of(*memory, registers) : 0;
  switch (operation) {
    case Operation::kLoadTileConfig:
      return tiles.configure(data + stride);
    case Operation::kReleaseTiles:
      return tiles.release();
    case Operation::kLoadTile:
      return tiles.load(first, data, stride);
    case Operation::kStoreTile:
      return tiles.store(first, data, stride);
    case Operation::kClearTile:
      return tiles.clear(first);
    case Operation::kAddByteProducts:
      return tiles.add_byte_products(first, second, third);
    case Operation::kAddPairProducts:
      return tiles.add_pair_products(first, second, third);
    default:
      CHECK(false, "an instruction of tiles");
  }
}

// What one of 32 lanes becomes.
uint16_t half_lane(Operation operation, uint16_t first, uint16_t second, uint16_t third) {
  const Float16 a{first};
  const Float16 b{second};
  const Float16 c{third};
  switch (operation) {
    case Operation::kWordsToHalf:
      return half_of(static_cast<int16_t>(second)).bits;
    case Operation::kUnsignedToHalf:
      return half_of(second).bits;
    case Operation::kMultiplyAdd132:
      return multiply_add(a, c, b).bits;
    case Operation::kMultiplyAdd213:
      return multiply_add(b, a, c).bits;
    case Operation::kMultiplyAdd231:
      return multiply_add(b, c, a).bits;
    default:
      CHECK(false, "an instruction of halves");
  }
}

void run_on_lanes(const Instruction& instruction, SavedRegisters& registers) {
  const Zmm first = registers.zmm(instruction.first);
  const Zmm second = registers.zmm(instruction.second);
  const Zmm third = registers.zmm(instruction.third);
  Zmm result;
  for (size_t i = 0; i < std::size(result.words); ++i) {
    result.words[i] =
        half_lane(instruction.operation, first.words[i], second.words[i], third.words[i]);
  }
  registers.set_zmm(instruction.first, result);
}

void run(const Instruction& instruction, SavedRegisters& registers) {
  if (instruction.operation < Operation::kWordsToHalf) {
    run_on_tiles(instruction, registers);
  } else {
    run_on_lanes(instruction, registers);
  }
  registers.skip(instruction.size);
}

// One instruction, and those of kAmx that follow it: a signal takes longer than what they do. One
// that is none of kAmx's is refused again, and ends the program as it always would.
void on_refused(int /*signal*/, siginfo_t* /*info*/, void* context) {
  SavedRegisters registers(context);
  std::optional<Instruction> instruction = decode(registers.instruction());
  if (!instruction) std::signal(SIGILL, SIG_DFL);
  for (; instruction; instruction = decode(registers.instruction())) run(*instruction, registers);
}

}  // namespace
}  // namespace emulated_amx

bool emulate_amx() {
  // What kAmx has that is not carried out here.
  if (!__builtin_cpu_supports("avx512vbmi")) return false;
  emulated_amx::SavedRegisters::prepare();
  struct sigaction action = {};
  action.sa_sigaction = emulated_amx::on_refused;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  return sigaction(SIGILL, &action, nullptr) == 0;
}

}  // namespace millrace
