// A stack that a thread of a kernel runs on, and the switch to it and back. Boost.Context does the
// switch; what is added is a guard page below the stack and the notes that AddressSanitizer wants.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

namespace millrace::cuda::emulated {

// Runs function(argument), which never returns, in turns with the one who resumes it. Used by one
// thread at a time.
class Fiber {
 public:
  Fiber(void (*function)(void*), void* argument);
  ~Fiber();  // whatever it was in the middle of is not unwound
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs it until it calls pause().
  void resume();
  // Called on the fiber: returns to the one who resumed it, until the next resume().
  void pause();

 private:
  static void begin(boost::context::detail::transfer_t transfer);
  std::byte* stack_bottom() const;

  void (*function_)(void*);
  void* argument_;
  std::byte* memory_;  // the guard page, then the stack
  boost::context::detail::fcontext_t inside_;
  boost::context::detail::fcontext_t outside_ = nullptr;
  const void* outside_bottom_ = nullptr;  // of the resumer's stack: AddressSanitizer's business
  size_t outside_size_ = 0;
};

}  // namespace millrace::cuda::emulated
