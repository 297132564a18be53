#include "sched/draft_pace.h"

#include "base/check.h"

namespace millrace {
namespace {

constexpr int64_t kOne = 1 << 16;  // probabilities have 16 bits behind the point

// The most j with chance^j above the threshold.
int32_t longest_draft(int64_t chance, int64_t threshold, int32_t num_tokens_max) {
  int32_t num_tokens = 0;
  for (int64_t all_right = chance; num_tokens < num_tokens_max && all_right > threshold;
       all_right = all_right * chance / kOne) {
    ++num_tokens;
  }
  return num_tokens;
}

}  // namespace

int32_t DraftPace::num_worthwhile(int32_t num_sequences, int32_t num_tokens_max) {
  CHECK(num_sequences >= 1, "a step of no sequences");
  const int64_t threshold = kOne * num_sequences / (int64_t{num_sequences} + kTokensPerPass);
  const int64_t chance = kOne * num_accepted_ / num_checked_;
  const int32_t num_tokens = longest_draft(chance, threshold, num_tokens_max);
  if (num_tokens > 0) return num_tokens;
  if (++num_steps_passed_ <= kNumStepsBetweenProbes) return 0;
  num_steps_passed_ = 0;
  return longest_draft(kOne * kNumAcceptedAtFirst / kNumCheckedAtFirst, threshold, num_tokens_max);
}

void DraftPace::note(int32_t num_drafted, int32_t num_accepted) {
  CHECK(num_accepted >= 0 && num_accepted <= num_drafted, "more right than there were");
  constexpr int32_t kMemory = 8;  // drafts
  const int32_t num_checked = num_accepted < num_drafted ? num_accepted + 1 : num_accepted;
  num_accepted_ += num_accepted * kUnit - num_accepted_ / kMemory;
  num_checked_ += num_checked * kUnit - num_checked_ / kMemory;
  num_steps_passed_ = 0;
}

}  // namespace millrace
