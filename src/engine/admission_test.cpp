#include "engine/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sampling/sampler.h"

namespace millrace {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

EngineLimits limits_of(AdmissionLimits admission) {
  return {
      .num_sequence_tokens_max = 1000,
      .max_num_seqs = 4,
      .max_num_live_seqs = 100,
      .admission = admission,
  };
}

// Takes a place if there is one, as a request does.
std::optional<RefusalReason> enter(
    Admission& admission, const Claim& claim, Arrivals* arrivals = nullptr
) {
  if (const auto refused = admission.check(claim)) return refused->reason;
  const Arrivals arrival = admission.arrival_of(claim);
  admission.take(claim, arrival);
  if (arrivals != nullptr) *arrivals += arrival;
  return std::nullopt;
}

TEST(Admission, BoundsWhatIsLive) {
  Admission admission(limits_of({}));
  EXPECT_EQ(enter(admission, {.num_seqs = 60}), std::nullopt);
  EXPECT_EQ(enter(admission, {.num_seqs = 41}), RefusalReason::kLiveSeqs);
  EXPECT_EQ(enter(admission, {.num_seqs = 40}), std::nullopt);
  EXPECT_EQ(enter(admission, {}), RefusalReason::kLiveSeqs);
  admission.release({}, true);
  EXPECT_EQ(enter(admission, {}), std::nullopt);
}

// vLLM checked its limit when a request came and counted the request later, so that a burst passed
// the check as one: the place is taken at the check here.
TEST(Admission, CountsWhatTheEngineHasNotSeenYet) {
  Admission admission(limits_of({.max_num_queued_reqs = 2}));
  int num_accepted = 0;
  for (int i = 0; i < 50; ++i) num_accepted += enter(admission, {}) ? 0 : 1;
  EXPECT_EQ(num_accepted, 4 + 2) << "as many as can run, and as many as may wait";
  EXPECT_EQ(admission.num_queued_seqs(), 2);
  EXPECT_EQ(enter(admission, {}), RefusalReason::kQueuedReqs);
}

TEST(Admission, CountsNothingTwiceWhenTheEngineHasSeenIt) {
  Admission admission(limits_of({.max_num_queued_reqs = 3}));
  Arrivals seen;
  for (int i = 0; i < 6; ++i) ASSERT_EQ(enter(admission, {}, &seen), std::nullopt);
  Arrivals unseen;
  ASSERT_EQ(enter(admission, {}, &unseen), std::nullopt);  // while the engine computes its step
  EXPECT_EQ(admission.num_queued_seqs(), 3);
  admission.update({.num_running = 4, .num_waiting = 2}, seen);
  EXPECT_EQ(admission.num_queued_seqs(), 3);
  EXPECT_EQ(enter(admission, {}), RefusalReason::kQueuedReqs);
  admission.update({.num_running = 4, .num_waiting = 1}, unseen);
  EXPECT_EQ(admission.num_queued_seqs(), 1);
}

TEST(Admission, GivesEachFreePlaceOnce) {
  Admission admission(limits_of({.max_num_queued_reqs = 1}));
  Arrivals first;
  ASSERT_EQ(enter(admission, {.num_seqs = 2}, &first), std::nullopt);
  admission.update({.num_running = 2}, first);
  EXPECT_EQ(enter(admission, {}), std::nullopt);
  EXPECT_EQ(enter(admission, {}), std::nullopt);
  EXPECT_EQ(admission.num_queued_seqs(), 0);
  EXPECT_EQ(enter(admission, {}), std::nullopt);
  EXPECT_EQ(admission.num_queued_seqs(), 1);
  EXPECT_EQ(enter(admission, {}), RefusalReason::kQueuedReqs);
}

TEST(Admission, NobodyFindsAPlaceWhileOthersWaitForKvBlocks) {
  Admission admission(limits_of({.max_num_queued_reqs = 1}));
  Arrivals seen;
  for (int i = 0; i < 4; ++i) ASSERT_EQ(enter(admission, {}, &seen), std::nullopt);
  admission.update({.num_running = 2, .num_waiting = 1}, seen);
  EXPECT_EQ(enter(admission, {}), RefusalReason::kQueuedReqs);
}

TEST(Admission, BoundsTheTokensThatWait) {
  Admission admission(limits_of({.max_num_queued_tokens = 500}));
  Arrivals seen;
  ASSERT_EQ(enter(admission, {.num_seqs = 4, .num_prompt_tokens = 10'000}, &seen), std::nullopt);
  EXPECT_EQ(enter(admission, {.num_prompt_tokens = 400}, &seen), std::nullopt);
  EXPECT_EQ(enter(admission, {.num_prompt_tokens = 101}), RefusalReason::kQueuedTokens);
  EXPECT_EQ(enter(admission, {.num_prompt_tokens = 100}, &seen), std::nullopt);
  admission.update({.num_running = 4, .num_waiting = 1, .num_waiting_tokens = 100}, seen);
  EXPECT_EQ(enter(admission, {.num_prompt_tokens = 400}), std::nullopt);
  EXPECT_EQ(enter(admission, {.num_prompt_tokens = 1}), RefusalReason::kQueuedTokens);
}

TEST(Admission, TheFirstToWaitIsTakenWhateverItIs) {
  const AdmissionLimits limits{.max_num_queued_reqs = 1, .max_num_queued_tokens = 10};
  Admission admission(limits_of(limits));
  ASSERT_EQ(enter(admission, {.num_seqs = 4}), std::nullopt);
  EXPECT_EQ(enter(admission, {.num_seqs = 8, .num_prompt_tokens = 900}), std::nullopt);
  EXPECT_EQ(enter(admission, {}), RefusalReason::kQueuedReqs);
}

TEST(Admission, BoundsTheBytesOfResultsUntilChoicesEnd) {
  Admission admission(limits_of({.max_result_bytes = 1000}));
  const Claim claim{.num_seqs = 2, .result_bytes = {.of_choice = 300, .of_prompt = 200}};
  ASSERT_EQ(enter(admission, claim), std::nullopt);
  const Claim small{.result_bytes = {.of_choice = 201}};
  EXPECT_EQ(enter(admission, small), RefusalReason::kResultBytes);
  EXPECT_THAT(admission.check(small)->message, HasSubstr("at most 1000 may"));
  admission.release(claim.result_bytes, false);
  EXPECT_EQ(enter(admission, {.result_bytes = {.of_choice = 501}}), RefusalReason::kResultBytes);
  EXPECT_EQ(enter(admission, {.result_bytes = {.of_choice = 500}}), std::nullopt);
  admission.release(claim.result_bytes, true);
  EXPECT_EQ(enter(admission, {.result_bytes = {.of_choice = 500}}), std::nullopt);
}

TEST(Admission, CountsTokensAndLogprobsOfAllChoicesAndThePrompt) {
  const EngineLimits limits = limits_of({});
  EngineRequest request{.prompt = std::vector<TokenId>(100)};
  request.sampling.max_tokens = 50;
  EXPECT_EQ(result_bytes_max(request, limits).total(3), 3 * 50 * 8);
  request.sampling.logprobs = 20;
  constexpr auto kList = static_cast<int64_t>(21 * sizeof(TokenLogprob));
  constexpr auto kToken = static_cast<int64_t>(sizeof(SampledToken)) + kList;
  EXPECT_EQ(result_bytes_max(request, limits).of_choice, 50 * kToken);
  request.sampling.prompt_logprobs = 20;
  EXPECT_GE(result_bytes_max(request, limits).of_prompt, 100 * kList);
  EXPECT_EQ(
      result_bytes_max(request, limits).total(2),
      2 * 50 * kToken + result_bytes_max(request, limits).of_prompt
  );
  request.sampling.max_tokens = 2'000'000'000;  // the sequence ends before
  EXPECT_EQ(result_bytes_max(request, limits).of_choice, 900 * kToken);
}

TEST(Admission, SaysWhenWhatWaitsWillHaveBeenComputed) {
  Admission admission(limits_of({}));
  EXPECT_EQ(admission.retry_after(0.0), seconds(1)) << "the speed is not known";
  EXPECT_EQ(admission.retry_after(100.0), seconds(1)) << "nothing waits";
  Arrivals seen;
  ASSERT_EQ(enter(admission, {.num_seqs = 4, .num_prompt_tokens = 500}, &seen), std::nullopt);
  ASSERT_EQ(enter(admission, {.num_seqs = 5, .num_prompt_tokens = 250}, &seen), std::nullopt);
  EXPECT_EQ(admission.retry_after(100.0), seconds(8));
  admission.note_output(60);  // as long as the others will be
  EXPECT_EQ(admission.retry_after(100.0), seconds(11));
  admission.update({.num_running = 4, .num_waiting = 5, .num_waiting_tokens = 250}, seen);
  EXPECT_EQ(admission.retry_after(100.0), seconds(6));
  EXPECT_EQ(admission.retry_after(1e-9), seconds(60));
  EXPECT_EQ(admission.retry_after(1e9), seconds(1));
}

TEST(Admission, FollowsTheLengthOfOutputs) {
  Admission admission(limits_of({}));
  ASSERT_EQ(enter(admission, {.num_seqs = 10}), std::nullopt);
  for (int i = 0; i < 1000; ++i) admission.note_output(1000);
  EXPECT_EQ(admission.retry_after(1000.0), seconds(10));
  for (int i = 0; i < 1000; ++i) admission.note_output(200);
  EXPECT_EQ(admission.retry_after(1000.0), seconds(3)) << "2 and a trace of what was";
}

}  // namespace
}  // namespace millrace
