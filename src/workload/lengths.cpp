#include "workload/lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/rng.h"
#include "workload/prompt_writer.h"

namespace millrace::bench {
namespace {

struct Bounds {
  int64_t low = 0, high = 0;
};

Error bad_length(const LengthAsk& ask, const std::string& what) {
  return invalid_argument(ask.flag + " " + what, ask.flag);
}

// vLLM's get_sampling_params: the ratio is of the length without the tokens that are added.
Bounds bounds_vllm(const LengthAsk& ask) {
  const double own = static_cast<double>(std::max<int64_t>(ask.length - ask.num_added_tokens, 0));
  return {
      static_cast<int64_t>(std::floor(own * (1.0 - ask.range_ratio))) + ask.num_added_tokens,
      static_cast<int64_t>(std::ceil(own * (1.0 + ask.range_ratio))) + ask.num_added_tokens};
}

// SGLang's compute_random_lens.
Bounds bounds_sglang(const LengthAsk& ask) {
  const double low = static_cast<double>(ask.length) * ask.range_ratio;
  return {std::max(static_cast<int64_t>(low), ask.length_min), ask.length};
}

Result<Bounds> bounds_of_ratio(const LengthAsk& ask) {
  const bool is_vllm = ask.range_ratio_mode == RangeRatioMode::kVllm;
  const bool is_in_range = ask.range_ratio >= 0.0 && ask.range_ratio <= 1.0;
  if (!is_in_range || (is_vllm && ask.range_ratio == 1.0)) {
    return invalid_argument(
        fmt::format(
            "--random-range-ratio is {}, expected a number from 0 to {}",
            ask.range_ratio,
            is_vllm ? "below 1 (mode vllm)" : "1 (mode sglang)"
        ),
        "--random-range-ratio"
    );
  }
  return is_vllm ? bounds_vllm(ask) : bounds_sglang(ask);
}

// guidellm's IntegerRangeSampler.
Bounds bounds_of_spread(const LengthAsk& ask) {
  const int64_t reach = 5 * ask.spread.stdev.value_or(0);
  return {
      ask.spread.min.value_or(std::max(ask.length_min, ask.length - reach)),
      ask.spread.max.value_or(ask.length + reach)};
}

Result<void> check_ask(const LengthAsk& ask) {
  const auto is_bad = [&](const std::optional<int64_t>& value) {
    return value && (*value < 0 || *value > kPromptTokensMax);
  };
  if (is_bad(ask.length) || is_bad(ask.spread.min) || is_bad(ask.spread.max) ||
      is_bad(ask.spread.stdev)) {
    return bad_length(
        ask,
        fmt::format(
            "is {}, expected tokens (with its spread) up to {}", ask.length, kPromptTokensMax
        )
    );
  }
  if (ask.range_ratio != 0.0 && !ask.range_ratio_mode) {
    return invalid_argument(
        "--random-range-ratio needs --range-ratio-mode vllm (L(1-r) to L(1+r)) or sglang (L*r to "
        "L)",
        "--range-ratio-mode"
    );
  }
  const bool has_spread = ask.spread.stdev || ask.spread.min || ask.spread.max;
  if (has_spread && ask.range_ratio_mode) {
    return invalid_argument(
        "--random-range-ratio and a standard deviation, minimum or maximum exclude each other",
        "--random-range-ratio"
    );
  }
  return {};
}

}  // namespace

Result<LengthSampler> LengthSampler::make(const LengthAsk& ask) {
  if (Result<void> checked = check_ask(ask); !checked) return checked.error();
  Bounds bounds;
  if (ask.range_ratio_mode) {
    Result<Bounds> of_ratio = bounds_of_ratio(ask);
    if (!of_ratio) return of_ratio.error();
    bounds = *of_ratio;
  } else {
    bounds = bounds_of_spread(ask);
  }
  if (bounds.low < ask.length_min || bounds.low > bounds.high) {
    return bad_length(
        ask,
        fmt::format(
            "is {}, which allows lengths from {} to {}: expected {} or more, ascending",
            ask.length,
            bounds.low,
            bounds.high,
            ask.length_min
        )
    );
  }
  LengthSampler sampler;
  sampler.low_ = bounds.low;
  sampler.high_ = std::min(bounds.high, kPromptTokensMax);
  if (ask.spread.stdev.value_or(0) > 0) {
    sampler.mean_ = static_cast<double>(ask.length);
    sampler.stdev_ = static_cast<double>(*ask.spread.stdev);
  }
  return sampler;
}

int64_t LengthSampler::draw(uint64_t key) const {
  if (low_ == high_) return low_;
  if (!stdev_) {
    const uint64_t width = static_cast<uint64_t>(high_ - low_) + 1;
    return low_ + static_cast<int64_t>(random_bits(key, 0) % width);
  }
  // Box and Muller's.
  const double radius = std::sqrt(-2.0 * std::log1p(-random_unit(key, 0)));
  const double normal = radius * std::cos(2.0 * std::numbers::pi * random_unit(key, 1));
  const double drawn =
      std::clamp(*mean_ + *stdev_ * normal, static_cast<double>(low_), static_cast<double>(high_));
  return std::llround(drawn);
}

}  // namespace millrace::bench
