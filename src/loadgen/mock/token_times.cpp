#include "loadgen/mock/token_times.h"

#include <cmath>

#include "base/rng.h"

namespace millrace::bench {

TokenTimes::TokenTimes(const MockOptions& options, int64_t number)
    : options_(&options),
      // Apart from the draws of the tokens themselves.
      key_(mix64(options.seed) ^ mix64(static_cast<uint64_t>(number) + 0x74696d65ULL)),
      due_(draw(options.ttft)) {}

std::chrono::nanoseconds TokenTimes::draw(const MockTime& time) const {
  if (time.jitter == 0.0) return time.mean;
  const double unit = random_unit(key_, static_cast<uint64_t>(index_));
  const double factor = 1.0 + time.jitter * (2.0 * unit - 1.0);
  return std::chrono::nanoseconds(std::llround(static_cast<double>(time.mean.count()) * factor));
}

void TokenTimes::advance(int64_t num_tokens) {
  if (options_->itl.jitter == 0.0) {
    index_ += num_tokens;
    due_ += num_tokens * options_->itl.mean;
    return;
  }
  for (int64_t i = 0; i < num_tokens; ++i) {
    ++index_;
    due_ += draw(options_->itl);
  }
}

}  // namespace millrace::bench
