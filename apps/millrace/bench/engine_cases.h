// What `millrace bench engine` runs: batches as the engine would make them, without an engine.
// Pure functions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/forward_batch.h"

namespace millrace::bench {

enum class SpeedPhase { kPrefill, kDecode };

// "prefill", "decode".
[[nodiscard]] std::string_view name_of(SpeedPhase phase);

struct SpeedCase {
  SpeedPhase phase = SpeedPhase::kDecode;
  int32_t batch_size = 1;
  int32_t context_len = 0;  // tokens of each sequence that are in the KV cache before
  int32_t num_tokens = 1;   // of each sequence: all together (prefill) or one a step (decode)

  int64_t num_tokens_in_all() const { return int64_t{batch_size} * num_tokens; }
};

// Where sequences lie in the KV cache, and what a step may hold. Sequence s has the blocks from
// s * blocks_per_sequence on.
struct SpeedLayout {
  int32_t block_size = 16;
  int32_t blocks_per_sequence = 0;
  int32_t max_num_batched_tokens = 0;
  int64_t vocab_size = 0;
};

// The steps of a case: the prompts of a prefill one after the other in steps of at most
// max_num_batched_tokens, logits for the last token of each; the steps of a decode with one token
// and its logits for each sequence. Token ids are a pure function of sequence and position.
// REQUIRES: room for the tokens in the layout; a decode's batch within max_num_batched_tokens.
std::vector<ForwardBatch> batches_of(const SpeedCase& speed_case, const SpeedLayout& layout);

// For runners that draw tokens (ModelRunner::draws_tokens()): greedy draws instead of logits, as
// the engine asks for; of a decode, each step's tokens are those that the step before draws.
void draw_tokens(SpeedPhase phase, std::vector<ForwardBatch>& batches);

// Fills the first `context_len` tokens of `num_sequences` sequences. The first tokens of one
// sequence are computed, as many as a step holds; all other blocks are copies of these: nothing
// branches on what stands in the cache, so the times are those of a real context, and thousands of
// tokens take no time to prepare. Empty for no context.
std::vector<ForwardBatch> context_batches(
    int32_t context_len, int32_t num_sequences, const SpeedLayout& layout
);

}  // namespace millrace::bench
