// Guesses at the next tokens of one sequence: those that followed its last tokens when these came
// before, in its prompt or its output. The longest n-gram counts, and of its occurrences the
// latest. A step costs a few look-ups, however long the sequence is. Pure: the same tokens give the
// same guesses. Owned by the scheduler; not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/id.h"
#include "cache/token_view.h"
#include "sched/ngram_index.h"
#include "sched/speculation.h"

namespace millrace {

class NgramDrafter {
 public:
  // How far the index of a prompt gets in one call, which takes less than a millisecond for the
  // n-grams of 2 to 4 tokens. A longer prompt is guessed from a few steps later.
  static constexpr int32_t kNumEndsPerCall = 4096;

  struct Options {
    NgramSpeculation speculation;  // valid
    uint64_t hash_key = 0;
    int32_t num_prompt_tokens = 0;
  };
  // What the drafters of a request's choices share: the index of its prompt, empty yet.
  static std::shared_ptr<NgramIndex> make_prompt_index(const Options& options);

  // `prompt`: of the same options; the other owners are the drafters of the other choices.
  NgramDrafter(const Options& options, std::shared_ptr<NgramIndex> prompt);

  // Sets `drafts` to what may follow `tokens`, at most `num_tokens_max` of them. Empty: the last
  // tokens are new, or the prompt is not entered yet. Where the occurrence lies so near that it
  // reaches the end, it goes on with the guesses themselves: a loop is guessed as a loop.
  // REQUIRES: the tokens of the last call and perhaps more; at least one is output.
  void draft(const TokenView& tokens, int32_t num_tokens_max, std::vector<TokenId>& drafts);

 private:
  NgramSpeculation speculation_;
  int32_t num_prompt_tokens_;
  std::shared_ptr<NgramIndex> prompt_;  // n-grams that end in the prompt
  NgramIndex output_;                   // and in the output
};

}  // namespace millrace
