// How many KV blocks fit the memory that is left for them. Pure arithmetic, printed at start, so
// that a number in a log can be followed back to the flags it came from.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace millrace {

struct KvBudgetInput {
  int64_t num_bytes = 0;        // for all KV blocks together
  int64_t bytes_per_block = 0;  // keys and values of all layers, and the block's hidden slot
  int32_t block_size = 0;       // tokens
  int32_t max_model_len = 0;    // tokens
};

struct KvBudget {
  int32_t num_blocks = 0;
  int64_t num_tokens = 0;
  double num_full_sequences = 0.0;  // of max_model_len tokens
  std::string text;  // "KV cache: 8.00 GiB / 1.41 MiB per block of 16 tokens = 5,810 blocks = ..."
};

// kInvalidArgument for sizes below 1. kResourceExhausted when not even one sequence of
// max_model_len fits; the message names how much it needs and what max_model_len would fit, if any.
Result<KvBudget> plan_kv_budget(const KvBudgetInput& input);

}  // namespace millrace
