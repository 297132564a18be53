// The limits of the control plane: filled once, validated once, printed at start.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "base/siphash.h"
#include "sampling/sampling_params.h"
#include "sched/speculation.h"

namespace millrace {

enum class SchedulingPolicy {
  kFcfs,      // first come, first served: nobody is overtaken, so nobody starves
  kPriority,  // lower priority values first, then first come, first served. Strict, as in vLLM: a
              // class can starve behind a better one that never pauses; deadlines bound that.
  kFair,      // tenants get equal shares of the tokens, while they have requests; within a tenant
              // first come, first served
};

// "fcfs", "priority" or "fair".
std::string_view name_of(SchedulingPolicy policy);

struct SchedulerConfig {
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;

  // Most tokens of one step, prompts and outputs together: it bounds a step's time, and so the gap
  // between two tokens of everyone who runs.
  int32_t max_num_batched_tokens = 512;

  // Most tokens of one step that a single sequence gets, so that a long prompt shares the step with
  // other prompts instead of delaying them. vLLM's long_prefill_token_threshold.
  int32_t long_prefill_token_threshold = 256;

  int32_t max_num_seqs = 64;    // most sequences that run at once
  int32_t max_logit_rows = 64;  // most rows of logits of one step: bounds [rows, vocab_size] floats

  int32_t max_model_len = 0;  // longest sequence, prompt and output
  int32_t block_size = 0;     // tokens of a KV block
  int32_t num_blocks = 0;     // KV blocks of the pool

  // Keeps the blocks of prefixes that were computed, until their memory is needed, for requests
  // that begin alike. Without it the choices of one request share their prompt all the same.
  bool enable_prefix_caching = true;
  SipKey prefix_hash_key;        // a server's secret: nobody outside can aim at a hash
  int32_t num_hidden_slots = 0;  // hidden states that the model can keep for exact repeats

  std::vector<TokenId> eos_token_ids;  // the model's; each ends a sequence unless ignore_eos

  // Guesses at next tokens take what a step has left of its tokens and rows of logits.
  std::optional<NgramSpeculation> speculation = {};
};

// Refuses numbers that cannot work together; the error's `where` is the field's name.
Result<void> validate(const SchedulerConfig& config);

// The longest sequence that can ever run: max_model_len, or what the whole pool holds if that is
// less. The last token of a sequence is never computed, so it needs no slot.
int32_t num_sequence_tokens_max(const SchedulerConfig& config);

// Refuses a request that could never run, however empty the machine: no prompt, or a prompt that
// leaves no room for one output token. A request that asks for more tokens than fit is not refused:
// it ends with FinishReason::kLength where the room ends. Pure; any thread.
Result<void> check_runnable(const SchedulerConfig& config, size_t num_prompt_tokens);

}  // namespace millrace
