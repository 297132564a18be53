// How many tokens of one sequence are worth guessing now, judged by how its guesses fared and by
// how many sequences share the step. Integers only: the same calls give the same answers on every
// machine. Owned by the scheduler.
//
// The rule. A token is guessed right with the chance p that the last drafts show. A step that
// computes B sequences reads the weights once, which takes as long as computing kTokensPerPass
// tokens. A token that comes of a step of its own costs its share of the read and its computation,
// (kTokensPerPass / B + 1) units; a guess costs 1 unit, right or wrong, and the j-th of a draft is
// right with the chance p^j. So the j-th is worth it while p^j > B / (B + kTokensPerPass): one
// sequence alone guesses down to a chance of 6 %, sixteen down to 50 %, and the busier the step,
// the less is guessed.
//
// A sequence whose chance is too low guesses nothing for kNumStepsBetweenProbes steps in which it
// could, and then once again as if nothing were known of it.
#pragma once

#include <cstdint>

namespace millrace {

class DraftPace {
 public:
  // A pass over bfloat16 weights takes the time of 15 tokens' arithmetic where a core streams at
  // half of 76 GB/s and computes 0.55 TFLOP/s; int8 with VNNI the same, int4 half of it. Measured
  // on Zen 4, whose cores read faster and compute slower: up to three guesses of one sequence are
  // nearly free, more cost a sixth of a pass each (docs/decisions/0011), so the rule guesses a
  // little less than it should of the first and too much of the rest.
  static constexpr int32_t kTokensPerPass = 16;
  static constexpr int32_t kNumStepsBetweenProbes = 32;

  // How many of `num_tokens_max` guesses are worth it in a step of `num_sequences`. Called once for
  // each step in which there is something to guess.
  int32_t num_worthwhile(int32_t num_sequences, int32_t num_tokens_max);

  // What came of a draft. REQUIRES: 0 <= num_accepted <= num_drafted.
  void note(int32_t num_drafted, int32_t num_accepted);

 private:
  // In 1/256 of a token, halved about every fifth draft: what was right, and what was looked at:
  // that, and the first wrong token of each draft. Of a sequence of which nothing is known yet, 7
  // of 8 are right: it begins with long drafts, and is slow to give up one that repeats itself.
  static constexpr int32_t kUnit = 256;
  static constexpr int32_t kNumCheckedAtFirst = 4 * kUnit;
  static constexpr int32_t kNumAcceptedAtFirst = kNumCheckedAtFirst / 8 * 7;

  int32_t num_accepted_ = kNumAcceptedAtFirst;
  int32_t num_checked_ = kNumCheckedAtFirst;
  int32_t num_steps_passed_ = 0;  // without a guess, though there was one
};

}  // namespace millrace
