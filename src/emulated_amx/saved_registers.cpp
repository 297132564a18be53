#include "emulated_amx/saved_registers.h"

#include <cpuid.h>

#include <array>
#include <cstring>
#include <span>

namespace millrace::emulated_amx {
namespace {

// States of XSAVE (Intel's manual, volume 1, 13.1).
constexpr unsigned kSse = 1;       // the low 16 bytes of zmm0 to zmm15
constexpr unsigned kAvx = 2;       // the next 16
constexpr unsigned kZmmUpper = 6;  // the next 32
constexpr unsigned kZmmHigh = 7;   // zmm16 to zmm31
constexpr unsigned kNumStates = 8;
constexpr unsigned kFirstZmmHigh = 16;

// Where the states are that are saved: a bit for each, and the first place of those that have no
// fixed one.
constexpr size_t kHeader = 512;
constexpr size_t kXmm = 160;

struct Place {
  size_t offset = 0;
  size_t size = 0;
};

std::array<Place, kNumStates> places() {
  constexpr unsigned kLeaf = 0xD;
  std::array<Place, kNumStates> places;
  places[kSse] = {.offset = kXmm, .size = 256};
  for (unsigned state = kAvx; state < kNumStates; ++state) {
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    __get_cpuid_count(kLeaf, state, &eax, &ebx, &ecx, &edx);
    places[state] = {.offset = ebx, .size = eax};
  }
  return places;
}

const Place& place_of(unsigned state) {
  static const std::array<Place, kNumStates> all = places();
  return all[state];
}

// Where registers of the instruction set's numbers are among those of a context.
constexpr std::array kGeneral = {
    REG_RAX,
    REG_RCX,
    REG_RDX,
    REG_RBX,
    REG_RSP,
    REG_RBP,
    REG_RSI,
    REG_RDI,
    REG_R8,
    REG_R9,
    REG_R10,
    REG_R11,
    REG_R12,
    REG_R13,
    REG_R14,
    REG_R15,
};

}  // namespace

void SavedRegisters::prepare() {
  static_cast<void>(place_of(kSse));
}

SavedRegisters::SavedRegisters(void* context)
    : context_(*static_cast<ucontext_t*>(context)),
      saved_(reinterpret_cast<uint8_t*>(context_.uc_mcontext.fpregs)) {}

const uint8_t* SavedRegisters::instruction() const {
  return reinterpret_cast<const uint8_t*>(context_.uc_mcontext.gregs[REG_RIP]);
}

void SavedRegisters::skip(size_t num_bytes) {
  context_.uc_mcontext.gregs[REG_RIP] += static_cast<greg_t>(num_bytes);
}

uint64_t SavedRegisters::general(unsigned index) const {
  return static_cast<uint64_t>(context_.uc_mcontext.gregs[kGeneral[index]]);
}

// A state that had nothing but zeros is not written: its bit says so.
uint8_t* SavedRegisters::part(unsigned state) {
  uint64_t saved_states = 0;
  std::memcpy(&saved_states, saved_ + kHeader, sizeof saved_states);
  const Place& place = place_of(state);
  if ((saved_states >> state & 1) == 0) {
    std::memset(saved_ + place.offset, 0, place.size);
    saved_states |= uint64_t{1} << state;
    std::memcpy(saved_ + kHeader, &saved_states, sizeof saved_states);
  }
  return saved_ + place.offset;
}

Zmm SavedRegisters::zmm(unsigned index) {
  Zmm value;
  if (index >= kFirstZmmHigh) {
    std::memcpy(value.words, part(kZmmHigh) + (index - kFirstZmmHigh) * 64, 64);
    return value;
  }
  std::memcpy(value.words, part(kSse) + size_t{index} * 16, 16);
  std::memcpy(value.words + 8, part(kAvx) + size_t{index} * 16, 16);
  std::memcpy(value.words + 16, part(kZmmUpper) + size_t{index} * 32, 32);
  return value;
}

void SavedRegisters::set_zmm(unsigned index, const Zmm& value) {
  if (index >= kFirstZmmHigh) {
    std::memcpy(part(kZmmHigh) + (index - kFirstZmmHigh) * 64, value.words, 64);
    return;
  }
  std::memcpy(part(kSse) + size_t{index} * 16, value.words, 16);
  std::memcpy(part(kAvx) + size_t{index} * 16, value.words + 8, 16);
  std::memcpy(part(kZmmUpper) + size_t{index} * 32, value.words + 16, 32);
}

}  // namespace millrace::emulated_amx
