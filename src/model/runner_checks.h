// What every runner of dense decoders refuses: models it cannot compute, limits that cannot be,
// and, as defects of ours, batches that break a rule of ForwardBatch.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "model/config.h"
#include "model/forward_batch.h"

namespace millrace {

// What a runner has memory for.
struct RunnerLimits {
  int32_t block_size = 16;  // token slots of a KV block
  int32_t num_blocks = 0;
  int32_t max_model_len = 0;  // tokens of a sequence, prompt and output
  int32_t max_num_batched_tokens = 0;
  int32_t max_num_logits = 0;    // rows of one batch whose logits are wanted
  int32_t num_hidden_slots = 0;  // hidden states that can be kept
};

// kUnsupported for a family or a head size that cannot be run, kInvalidArgument for sizes that no
// model has.
Result<void> check_runnable_model(const ModelConfig& config);

// Refuses experts: "qwen3_moe models cannot be `what` yet".
Result<void> check_dense_model(const ModelConfig& config, std::string_view what);

// kInvalidArgument, naming the limit. Block size and number are the KV cache's to check.
Result<void> check_limits(const RunnerLimits& limits);

// CHECKs that the batch is one that the runner may compute.
void check_batch(const ForwardBatch& batch, int64_t vocab_size, const RunnerLimits& limits);

}  // namespace millrace
