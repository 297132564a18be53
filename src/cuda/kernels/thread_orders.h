// For the kernels' tests: the same computation in every order of threads that can be had, so that a
// missing barrier shows. Two in emulation, one on a device: emulated/threads_orders_test.cpp and
// native/thread_orders_test.cpp define it.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>

namespace millrace::cuda {

void in_every_thread_order(const std::function<void()>& function);

// What `function` returns, which must be the same each time (no floats: NaN is not itself).
template <class Function>
auto same_in_every_thread_order(const Function& function) {
  std::optional<decltype(function())> first;
  in_every_thread_order([&] {
    auto result = function();
    if (first) {
      EXPECT_TRUE(result == *first) << "another order of threads gives another result";
    } else {
      first = std::move(result);
    }
  });
  return std::move(*first);
}

}  // namespace millrace::cuda
