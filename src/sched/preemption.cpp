#include "sched/preemption.h"

#include <algorithm>

namespace millrace {

PreemptionCost preemption_cost(const Sequence& sequence, const BlockPool& pool) {
  const std::span<const BlockId> blocks = sequence.blocks().blocks();
  PreemptionCost cost;
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    if (pool.num_references(*block) > 1) break;
    ++cost.num_blocks_gained;
  }
  const int32_t num_shared_tokens =
      (sequence.blocks().num_blocks() - cost.num_blocks_gained) * sequence.blocks().block_size();
  cost.num_tokens_lost = std::max(0, sequence.num_computed_tokens() - num_shared_tokens);
  return cost;
}

std::optional<size_t> choose_victim(
    std::span<Sequence* const> candidates, const BlockPool& pool, int32_t num_blocks_needed
) {
  std::optional<size_t> best;
  PreemptionCost best_cost;
  for (size_t i = 0; i < candidates.size(); ++i) {
    PreemptionCost cost = preemption_cost(*candidates[i], pool);
    if (cost.num_blocks_gained == 0) continue;
    cost.num_blocks_gained = std::min(cost.num_blocks_gained, num_blocks_needed);
    // a/b <= c/d without division.
    const bool is_better = !best || int64_t{cost.num_tokens_lost} * best_cost.num_blocks_gained <=
                                        int64_t{best_cost.num_tokens_lost} * cost.num_blocks_gained;
    if (!is_better) continue;
    best = i;
    best_cost = cost;
  }
  if (!best && !candidates.empty()) return candidates.size() - 1;
  return best;
}

}  // namespace millrace
