#include "emulated_amx/instruction.h"

#include <cstring>

namespace millrace::emulated_amx {
namespace {

constexpr uint8_t kVex = 0xC4;
constexpr uint8_t kEvex = 0x62;

// What stands before an opcode.
struct Prefix {
  unsigned map = 0;
  unsigned mandatory = 0;  // 0: none, 1: 66, 2: F3, 3: F2
  unsigned opcode = 0;
  unsigned second = 0;  // the register that is in no ModRM byte
  // What is added to the registers of ModRM and SIB.
  unsigned reg = 0;
  unsigned index = 0;
  unsigned base = 0;
  unsigned size = 0;  // bytes, with the opcode
  bool is_evex = false;
};

// Bits that are stored inverted.
constexpr unsigned inverted(unsigned byte, unsigned bit, unsigned value) {
  return (byte >> bit & 1) != 0 ? 0 : value;
}

// Three bytes, of which 128 bits (L) and 32 (W) are what tiles have.
std::optional<Prefix> vex_prefix(const uint8_t* bytes) {
  if ((bytes[2] & 0x84) != 0) return std::nullopt;
  return Prefix{
      .map = bytes[1] & 0x1FU,
      .mandatory = bytes[2] & 3U,
      .opcode = bytes[3],
      .second = ~(bytes[2] >> 3U) & 15U,
      .reg = inverted(bytes[1], 7, 8),
      .index = inverted(bytes[1], 6, 8),
      .base = inverted(bytes[1], 5, 8),
      .size = 4,
  };
}

// Four bytes, of 512 bits without masks, roundings and broadcasts.
std::optional<Prefix> evex_prefix(const uint8_t* bytes) {
  const bool is_whole = (bytes[3] & 0xF7) == 0x40;
  if (!is_whole || (bytes[2] & 0x84) != 4 || (bytes[1] & 8) != 0) return std::nullopt;
  return Prefix{
      .map = bytes[1] & 7U,
      .mandatory = bytes[2] & 3U,
      .opcode = bytes[4],
      .second = (~(bytes[2] >> 3U) & 15U) + inverted(bytes[3], 3, 16),
      .reg = inverted(bytes[1], 7, 8) + inverted(bytes[1], 4, 16),
      .index = inverted(bytes[1], 6, 16),
      .base = inverted(bytes[1], 5, 8),
      .size = 5,
      .is_evex = true,
  };
}

std::optional<Prefix> prefix_of(const uint8_t* bytes) {
  if (bytes[0] == kVex) return vex_prefix(bytes);
  if (bytes[0] == kEvex) return evex_prefix(bytes);
  return std::nullopt;
}

constexpr unsigned key_of(bool is_evex, unsigned map, unsigned mandatory, unsigned opcode) {
  return (is_evex ? 1U : 0U) << 16 | map << 12 | mandatory << 8 | opcode;
}

// One opcode means several instructions, as its operand is a register or memory.
std::optional<Operation> operation_of(const Prefix& prefix, bool is_memory) {
  const auto only_if = [](bool condition, Operation operation) {
    return condition ? std::optional(operation) : std::nullopt;
  };
  switch (key_of(prefix.is_evex, prefix.map, prefix.mandatory, prefix.opcode)) {
    case key_of(false, 2, 0, 0x49):
      return is_memory ? Operation::kLoadTileConfig : Operation::kReleaseTiles;
    case key_of(false, 2, 3, 0x49):
      return only_if(!is_memory, Operation::kClearTile);
    case key_of(false, 2, 1, 0x4B):
    case key_of(false, 2, 3, 0x4B):
      return only_if(is_memory, Operation::kLoadTile);
    case key_of(false, 2, 2, 0x4B):
      return only_if(is_memory, Operation::kStoreTile);
    case key_of(false, 2, 2, 0x5C):
      return only_if(!is_memory, Operation::kAddPairProducts);
    case key_of(false, 2, 3, 0x5E):
      return only_if(!is_memory, Operation::kAddByteProducts);
    case key_of(true, 5, 2, 0x7D):
      return only_if(!is_memory, Operation::kWordsToHalf);
    case key_of(true, 5, 3, 0x7D):
      return only_if(!is_memory, Operation::kUnsignedToHalf);
    case key_of(true, 6, 1, 0x98):
      return only_if(!is_memory, Operation::kMultiplyAdd132);
    case key_of(true, 6, 1, 0xA8):
      return only_if(!is_memory, Operation::kMultiplyAdd213);
    case key_of(true, 6, 1, 0xB8):
      return only_if(!is_memory, Operation::kMultiplyAdd231);
    default:
      return std::nullopt;
  }
}

// What ModRM, at `bytes`, says of memory; adds its bytes, and those of SIB and of the displacement,
// to `size`.
MemoryOperand memory_operand(const Prefix& prefix, const uint8_t* bytes, unsigned& size) {
  constexpr unsigned kSib = 4;
  constexpr unsigned kNoIndex = 4;
  constexpr unsigned kNoBase = 5;
  const unsigned mode = bytes[0] >> 6U;
  const unsigned low = bytes[0] & 7U;
  const uint8_t* next = bytes + 1;
  MemoryOperand memory;
  unsigned num_displacement_bytes = mode == 1 ? 1 : mode == 2 ? 4 : 0;
  if (low == kSib) {
    const unsigned sib = *next++;
    const unsigned index = (sib >> 3 & 7) + prefix.index;
    if (index != kNoIndex) memory.index = index;
    memory.scale = 1U << (sib >> 6);
    if ((sib & 7) != kNoBase || mode != 0) {
      memory.base = (sib & 7) + prefix.base;
    } else {
      num_displacement_bytes = 4;
    }
  } else if (low == kNoBase && mode == 0) {
    memory.is_from_next = true;
    num_displacement_bytes = 4;
  } else {
    memory.base = low + prefix.base;
  }
  if (num_displacement_bytes == 1) memory.displacement = static_cast<int8_t>(*next);
  if (num_displacement_bytes == 4) std::memcpy(&memory.displacement, next, 4);
  size += static_cast<unsigned>(next - bytes) + num_displacement_bytes;
  return memory;
}

// Of tiles with three operands the second is in ModRM, of zmm registers the third.
void read_registers(const Prefix& prefix, unsigned modrm, Instruction& instruction) {
  const unsigned reg = (modrm >> 3 & 7) + prefix.reg;
  const unsigned rm = (modrm & 7) + prefix.base + prefix.index;
  const bool is_conversion = instruction.operation == Operation::kWordsToHalf ||
                             instruction.operation == Operation::kUnsignedToHalf;
  instruction.first = reg;
  instruction.second = prefix.is_evex && !is_conversion ? prefix.second : rm;
  instruction.third = prefix.is_evex ? rm : prefix.second;
}

}  // namespace

std::optional<Instruction> decode(const uint8_t* bytes) {
  const std::optional<Prefix> prefix = prefix_of(bytes);
  if (!prefix) return std::nullopt;
  const uint8_t* modrm = bytes + prefix->size;
  const bool is_memory = *modrm >> 6U != 3;
  const std::optional<Operation> operation = operation_of(*prefix, is_memory);
  if (!operation) return std::nullopt;
  Instruction instruction{.operation = *operation, .size = prefix->size};
  if (is_memory) {
    instruction.first = (*modrm >> 3U & 7) + prefix->reg;
    instruction.memory = memory_operand(*prefix, modrm, instruction.size);
  } else {
    read_registers(*prefix, *modrm, instruction);
    instruction.size += 1;
  }
  return instruction;
}

}  // namespace millrace::emulated_amx
