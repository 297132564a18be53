#include "model/kv_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/math.h"

namespace millrace {
namespace {

std::string format_bytes(double num_bytes) {
  constexpr double kUnit = 1024.0;
  const char* const names[] = {"KiB", "MiB", "GiB", "TiB"};
  size_t name = 0;
  num_bytes /= kUnit;
  while (num_bytes >= kUnit && name + 1 < std::size(names)) {
    num_bytes /= kUnit;
    ++name;
  }
  return fmt::format("{:.2f} {}", num_bytes, names[name]);
}

// 92960 -> "92,960".
std::string format_count(int64_t count) {
  if (count < 1000) return fmt::format("{}", count);
  return fmt::format("{},{:03}", format_count(count / 1000), count % 1000);
}

Result<void> check_sizes(const KvBudgetInput& input) {
  if (input.bytes_per_block < 1 || input.block_size < 1 || input.max_model_len < 1) {
    return invalid_argument(fmt::format(
        "the KV cache needs sizes of at least 1, got {} bytes per block, {} tokens per block and "
        "max_model_len = {}",
        input.bytes_per_block,
        input.block_size,
        input.max_model_len
    ));
  }
  return {};
}

Error too_small(const KvBudgetInput& input, int64_t num_blocks, int64_t num_blocks_needed) {
  const double bytes_needed =
      static_cast<double>(num_blocks_needed) * static_cast<double>(input.bytes_per_block);
  std::string message = fmt::format(
      "the KV cache has {}, and one sequence of max_model_len = {} needs {}; give it more memory "
      "(--kv-cache-memory-bytes)",
      format_bytes(static_cast<double>(std::max<int64_t>(input.num_bytes, 0))),
      input.max_model_len,
      format_bytes(bytes_needed)
  );
  if (num_blocks > 0) {
    message += fmt::format(", or set max_model_len to at most {}", num_blocks * input.block_size);
  }
  return {ErrorCode::kResourceExhausted, std::move(message), "max_model_len"};
}

}  // namespace

Result<KvBudget> plan_kv_budget(const KvBudgetInput& input) {
  if (auto checked = check_sizes(input); !checked) return checked.error();
  // Slots are numbered with int32_t, whatever the memory could hold.
  const int64_t num_blocks_max = std::numeric_limits<int32_t>::max() / input.block_size;
  const int64_t num_blocks =
      std::clamp<int64_t>(input.num_bytes / input.bytes_per_block, 0, num_blocks_max);
  const int64_t num_blocks_needed = div_ceil(input.max_model_len, input.block_size);
  if (num_blocks < num_blocks_needed) return too_small(input, num_blocks, num_blocks_needed);

  KvBudget budget{
      .num_blocks = static_cast<int32_t>(num_blocks),
      .num_tokens = num_blocks * input.block_size,
      // Whole blocks each: a sequence does not share its last one.
      .num_full_sequences =
          static_cast<double>(num_blocks) / static_cast<double>(num_blocks_needed),
      .text = "",
  };
  budget.text = fmt::format(
      "KV cache: {} / {} per block of {} tokens = {} blocks = {} tokens: {:.1f} sequences of {}",
      format_bytes(static_cast<double>(input.num_bytes)),
      format_bytes(static_cast<double>(input.bytes_per_block)),
      input.block_size,
      format_count(num_blocks),
      format_count(budget.num_tokens),
      budget.num_full_sequences,
      input.max_model_len
  );
  return budget;
}

}  // namespace millrace
