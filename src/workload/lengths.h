// Lengths of prompts and answers in tokens, drawn as the tools draw them. Immutable values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "workload/dataset.h"

namespace millrace::bench {

struct LengthAsk {
  std::string flag;  // that errors name: "--input-len"
  int64_t length = 0;
  double range_ratio = 0.0;
  std::optional<RangeRatioMode> range_ratio_mode;
  LengthSpread spread;
  int64_t num_added_tokens = 0;  // vLLM's ratio is of what is left without them
  int64_t length_min = 1;        // the least that makes sense
};

class LengthSampler {
 public:
  // Refuses a ratio without a mode, or one that allows lengths that make no sense.
  static Result<LengthSampler> make(const LengthAsk& ask);

  // A pure function of the key.
  int64_t draw(uint64_t key) const;

  int64_t low() const { return low_; }
  int64_t high() const { return high_; }

 private:
  int64_t low_ = 0, high_ = 0;
  std::optional<double> mean_, stdev_;  // none: uniform
};

}  // namespace millrace::bench
