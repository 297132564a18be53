// All tokens of one step, flattened: the only thing a model sees of requests and scheduling.
// A value, built by the engine for each step.
#pragma once

#include <cstdint>
#include <vector>

#include "base/id.h"

namespace millrace {

struct ForwardBatch {
  std::vector<TokenId> token_ids;     // [num_tokens]
  std::vector<int32_t> positions;     // [num_tokens], absolute, from 0
  std::vector<int32_t> slot_mapping;  // [num_tokens], block * block_size + offset: where K and V go
  std::vector<int32_t> cu_seqlens;    // [num_sequences + 1], first token of each sequence
  std::vector<int32_t> context_lens;  // [num_sequences], tokens in the KV cache after this step
  std::vector<int32_t> block_tables;  // [num_sequences, max_blocks_per_sequence], row-major
  int32_t max_blocks_per_sequence = 0;
  std::vector<int32_t> logit_rows;  // [num_logits], tokens of this batch whose logits are wanted

  int32_t num_tokens() const { return static_cast<int32_t>(token_ids.size()); }
  int32_t num_sequences() const { return static_cast<int32_t>(context_lens.size()); }
  int32_t num_logits() const { return static_cast<int32_t>(logit_rows.size()); }
};

}  // namespace millrace
