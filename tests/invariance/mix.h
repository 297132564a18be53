// One random mix: an engine of random limits, some requests of a catalog, cancellations, deadlines
// and priorities, all drawn from a seed. Whatever happens in it, each sequence says what the
// catalog knows that it says alone: the same tokens, logprobs and reason to end, bit for bit.
#pragma once

#include <cstdint>
#include <span>

#include "catalog.h"
#include "test_models.h"

namespace millrace {

// What happened, so that a suite can insist that everything did.
struct MixTotals {
  // Sequences, by what befell them.
  int64_t num_complete = 0;
  int64_t num_cut_short = 0;
  int64_t num_preempted = 0;
  int64_t num_of_several = 0;       // n > 1
  int64_t num_cached = 0;           // the prompt, or a part of it, was not computed
  int64_t num_cached_in_block = 0;  // what was cached ends within a block, and before the prompt
  int64_t num_chat_turns = 0;       // cached beyond the prompt that the answer was to
  int64_t num_repeats_resumed = 0;  // exact repeats that computed nothing
  int64_t num_prompt_logprobs = 0;

  // Batches that a model ran.
  int64_t num_batches = 0;
  int64_t num_mixed_batches = 0;  // stretches of one token beside longer ones
  int64_t num_chunks = 0;         // stretches that end within a prompt
  int64_t num_block_copies = 0;
  int64_t num_states_saved = 0;
  int64_t num_batches_without_tokens = 0;

  // Tokens that were guessed.
  int64_t num_guessed_right = 0;
  int64_t num_guessed_wrong = 0;
};

// Runs the mix of this seed. Failures are GoogleTest's.
void run_mix(
    TestModel& model, std::span<const CatalogEntry> catalog, uint64_t seed, MixTotals& totals
);

}  // namespace millrace
