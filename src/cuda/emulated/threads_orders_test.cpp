#include "cuda/emulated/threads.h"
#include "cuda/kernels/thread_orders.h"

namespace millrace::cuda {

void in_every_thread_order(const std::function<void()>& function) {
  emulated::set_thread_order(emulated::ThreadOrder::kDescending);
  function();
  emulated::set_thread_order(emulated::ThreadOrder::kAscending);
  function();
}

}  // namespace millrace::cuda
