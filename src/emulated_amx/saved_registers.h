// The registers of a thread that a signal has stopped, as Linux saved them: reading and writing
// them is reading and writing what the thread will go on with.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>

namespace millrace::emulated_amx {

struct Zmm {
  uint16_t words[32];
};

class SavedRegisters {
 public:
  // To be called before the first signal: asks the processor where states are saved.
  static void prepare();

  // `context`: the third argument of a signal's handler; outlives this. REQUIRES: the processor has
  // AVX-512.
  explicit SavedRegisters(void* context);

  // The next instruction.
  [[nodiscard]] const uint8_t* instruction() const;
  void skip(size_t num_bytes);

  // 0 is rax, 4 rsp, 15 r15.
  [[nodiscard]] uint64_t general(unsigned index) const;

  [[nodiscard]] Zmm zmm(unsigned index);
  void set_zmm(unsigned index, const Zmm& value);

 private:
  [[nodiscard]] uint8_t* part(unsigned state);

  ucontext_t& context_;
  uint8_t* saved_;  // by XSAVE, every state at its own place
};

}  // namespace millrace::emulated_amx
