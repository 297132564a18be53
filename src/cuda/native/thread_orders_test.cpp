#include "cuda/kernels/thread_orders.h"

namespace millrace::cuda {

void in_every_thread_order(const std::function<void()>& function) {
  function();
}

}  // namespace millrace::cuda
