#include "cuda/emulated/device/fiber.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "cuda/emulated/device/sanitizer.h"

namespace millrace::cuda::emulated {
namespace {

// Kernels keep little on their stack; the most is what a failed CHECK prints, and AddressSanitizer
// multiplies frames. Pages that are never touched cost nothing.
constexpr size_t kStackBytes = size_t{256} * 1024;
constexpr size_t kGuardBytes = 4096;

}  // namespace

Fiber::Fiber(void (*function)(void*), void* argument) : function_(function), argument_(argument) {
  void* memory = mmap(
      nullptr,
      kGuardBytes + kStackBytes,
      PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
      -1,
      0
  );
  CHECK(memory != MAP_FAILED, std::strerror(errno));
  CHECK(mprotect(memory, kGuardBytes, PROT_NONE) == 0, std::strerror(errno));
  memory_ = static_cast<std::byte*>(memory);
  inside_ = boost::context::detail::make_fcontext(
      stack_bottom() + kStackBytes, kStackBytes, &Fiber::begin
  );
}

Fiber::~Fiber() {
  allow(stack_bottom(), kStackBytes);  // the red zones of its frames
  munmap(memory_, kGuardBytes + kStackBytes);
}

std::byte* Fiber::stack_bottom() const {
  return memory_ + kGuardBytes;
}

void Fiber::resume() {
  void* fake_stack = nullptr;
  start_switch(&fake_stack, stack_bottom(), kStackBytes);
  inside_ = boost::context::detail::jump_fcontext(inside_, this).fctx;
  finish_switch(fake_stack, nullptr, nullptr);
}

void Fiber::pause() {
  void* fake_stack = nullptr;
  start_switch(&fake_stack, outside_bottom_, outside_size_);
  outside_ = boost::context::detail::jump_fcontext(outside_, nullptr).fctx;
  finish_switch(fake_stack, &outside_bottom_, &outside_size_);
}

void Fiber::begin(boost::context::detail::transfer_t transfer) {
  auto* const fiber = static_cast<Fiber*>(transfer.data);
  finish_switch(nullptr, &fiber->outside_bottom_, &fiber->outside_size_);
  fiber->outside_ = transfer.fctx;
  fiber->function_(fiber->argument_);
  CHECK(false, "a fiber's function never returns");
}

}  // namespace millrace::cuda::emulated
