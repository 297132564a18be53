// How many tokens the steps of an engine compute: a histogram that is a plain value.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace millrace {

struct StepSizes {
  // The most tokens of each bucket: those of vLLM's iteration_tokens_total.
  static constexpr std::array<int32_t, 13> kBounds = {
      1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

  std::array<int64_t, kBounds.size() + 1> num_steps = {};  // the last: beyond all bounds
  int64_t num_tokens = 0;                                  // of all steps

  void add(int64_t num_step_tokens) {
    const auto* bucket = std::lower_bound(kBounds.begin(), kBounds.end(), num_step_tokens);
    ++num_steps[static_cast<size_t>(bucket - kBounds.begin())];
    num_tokens += num_step_tokens;
  }
};

}  // namespace millrace
