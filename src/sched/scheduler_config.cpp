#include "sched/scheduler_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/error_reason.h"

namespace millrace {
namespace {

std::optional<Error> check_at_least(
    const char* field, int32_t value, int32_t low, const char* why
) {
  if (value >= low) return std::nullopt;
  return invalid_argument(
      fmt::format("{} must be at least {}{}, got {}", field, low, why, value), field
  );
}

int64_t num_slots(const SchedulerConfig& config) {
  return int64_t{config.num_blocks} * config.block_size;
}

}  // namespace

std::string_view name_of(SchedulingPolicy policy) {
  switch (policy) {
    case SchedulingPolicy::kFcfs:
      return "fcfs";
    case SchedulingPolicy::kPriority:
      return "priority";
    case SchedulingPolicy::kFair:
      return "fair";
  }
  CHECK(false, "a policy without a name");
}

Result<void> validate(const SchedulerConfig& config) {
  // Everyone who runs gets at least one token a step, and one row of logits.
  constexpr const char* kOneEach = " (max_num_seqs: one for each running sequence)";
  const std::optional<Error> errors[] = {
      check_at_least("block_size", config.block_size, 1, ""),
      check_at_least("num_blocks", config.num_blocks, 1, ""),
      check_at_least("max_model_len", config.max_model_len, 2, " (a prompt and an output token)"),
      check_at_least("max_num_seqs", config.max_num_seqs, 1, ""),
      check_at_least(
          "max_num_batched_tokens", config.max_num_batched_tokens, config.max_num_seqs, kOneEach
      ),
      check_at_least("max_logit_rows", config.max_logit_rows, config.max_num_seqs, kOneEach),
      check_at_least("long_prefill_token_threshold", config.long_prefill_token_threshold, 1, ""),
  };
  for (const std::optional<Error>& error : errors) {
    if (error) return *error;
  }
  if (num_slots(config) > std::numeric_limits<int32_t>::max()) {
    return invalid_argument(
        fmt::format(
            "{} blocks of {} tokens are more than 2^31 - 1 token slots",
            config.num_blocks,
            config.block_size
        ),
        "num_blocks"
    );
  }
  if (!config.speculation) return {};
  return validate(*config.speculation);
}

int32_t num_sequence_tokens_max(const SchedulerConfig& config) {
  return static_cast<int32_t>(std::min<int64_t>(config.max_model_len, num_slots(config) + 1));
}

Result<void> check_runnable(const SchedulerConfig& config, size_t num_prompt_tokens) {
  if (num_prompt_tokens == 0) {
    return invalid_argument("the prompt has no tokens", "prompt", error_reason::kInvalidValue);
  }
  if (num_prompt_tokens >= static_cast<size_t>(config.max_model_len)) {
    return invalid_argument(
        fmt::format(
            "the prompt has {} tokens; with at least one output token it must fit max_model_len = "
            "{}",
            num_prompt_tokens,
            config.max_model_len
        ),
        "prompt",
        error_reason::kContextLengthExceeded
    );
  }
  if (num_prompt_tokens >= static_cast<size_t>(num_sequence_tokens_max(config))) {
    return invalid_argument(
        fmt::format(
            "the prompt has {} tokens; the KV cache holds {} in all ({} blocks of {})",
            num_prompt_tokens,
            num_slots(config),
            config.num_blocks,
            config.block_size
        ),
        "prompt",
        error_reason::kContextLengthExceeded
    );
  }
  return {};
}

}  // namespace millrace
