#include "sched/speculation.h"

#include <fmt/format.h>

namespace millrace {

Result<void> validate(const NgramSpeculation& speculation) {
  struct Range {
    const char* field;
    int32_t value;
    int32_t high;
  };
  const Range ranges[] = {
      {"num_speculative_tokens",
       speculation.num_speculative_tokens,
       NgramSpeculation::kNumTokensMax},
      {"prompt_lookup_max", speculation.prompt_lookup_max, NgramSpeculation::kLookupMax},
      {"prompt_lookup_min", speculation.prompt_lookup_min, NgramSpeculation::kLookupMax},
  };
  for (const Range& range : ranges) {
    if (range.value >= 1 && range.value <= range.high) continue;
    return invalid_argument(
        fmt::format("{} must be 1 to {}, got {}", range.field, range.high, range.value), range.field
    );
  }
  if (speculation.prompt_lookup_min > speculation.prompt_lookup_max) {
    return invalid_argument(
        fmt::format(
            "prompt_lookup_min ({}) must not be above prompt_lookup_max ({})",
            speculation.prompt_lookup_min,
            speculation.prompt_lookup_max
        ),
        "prompt_lookup_min"
    );
  }
  return {};
}

}  // namespace millrace
