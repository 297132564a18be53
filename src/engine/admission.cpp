#include "engine/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "sampling/sampler.h"

namespace millrace {
namespace {

// A client that is told more than a minute gives up; by then half of what waited may have, too.
constexpr double kRetryAfterMax_s = 60.0;
// The mean follows the last some thirty sequences.
constexpr double kOutputWeight = 1.0 / 32.0;

// Of a list of one token's logprobs: the token itself and the most likely others.
int64_t bytes_of_logprobs(int32_t num_top) {
  return (int64_t{num_top} + 1) * static_cast<int64_t>(sizeof(TokenLogprob));
}

}  // namespace

ResultBytes result_bytes_max(const EngineRequest& request, const EngineLimits& limits) {
  const SamplingParams& sampling = request.sampling;
  const auto num_prompt_tokens = static_cast<int64_t>(request.prompt.size());
  const int64_t num_output_tokens = std::min<int64_t>(
      sampling.max_tokens, std::max<int64_t>(0, limits.num_sequence_tokens_max - num_prompt_tokens)
  );
  // An id of its own for the engine and for who puts the text together, or the list with both.
  const int64_t bytes_of_token = sampling.logprobs ? static_cast<int64_t>(sizeof(SampledToken)) +
                                                         bytes_of_logprobs(*sampling.logprobs)
                                                   : int64_t{2 * sizeof(TokenId)};
  const int64_t bytes_of_position = sampling.prompt_logprobs
                                        ? static_cast<int64_t>(sizeof(std::vector<TokenLogprob>)) +
                                              bytes_of_logprobs(*sampling.prompt_logprobs)
                                        : 0;
  return {
      .of_choice = num_output_tokens * bytes_of_token,
      .of_prompt = num_prompt_tokens * bytes_of_position,
  };
}

Arrivals& Arrivals::operator+=(const Arrivals& other) {
  num_seqs_with_a_place += other.num_seqs_with_a_place;
  num_seqs_queued += other.num_seqs_queued;
  num_tokens += other.num_tokens;
  num_tokens_queued += other.num_tokens_queued;
  return *this;
}

Arrivals& Arrivals::operator-=(const Arrivals& other) {
  num_seqs_with_a_place -= other.num_seqs_with_a_place;
  num_seqs_queued -= other.num_seqs_queued;
  num_tokens -= other.num_tokens;
  num_tokens_queued -= other.num_tokens_queued;
  return *this;
}

Admission::Admission(const EngineLimits& limits)
    : limits_(limits.admission),
      max_num_live_seqs_(limits.max_num_live_seqs),
      max_num_seqs_(limits.max_num_seqs) {}

std::optional<Admission::Refused> Admission::check(const Claim& claim) const {
  if (claim.num_seqs > max_num_live_seqs_ - num_live_seqs_) {
    return Refused{
        RefusalReason::kLiveSeqs,
        fmt::format(
            "{} sequences run or wait, and at most {} may", num_live_seqs_, max_num_live_seqs_
        )};
  }
  const int64_t num_bytes = claim.result_bytes.total(claim.num_seqs);
  if (num_bytes > limits_.max_result_bytes - num_result_bytes_) {
    return Refused{
        RefusalReason::kResultBytes,
        fmt::format(
            "the results of what runs or waits can take {} bytes and these {} more, and all "
            "together at most {} may",
            num_result_bytes_,
            num_bytes,
            limits_.max_result_bytes
        )};
  }
  // The first to wait is let in, whatever it is: it would be refused for ever.
  if (arrival_of(claim).num_seqs_queued == 0 || num_queued_seqs() == 0) return std::nullopt;
  const std::optional<int32_t>& num_reqs_max = limits_.max_num_queued_reqs;
  if (num_reqs_max && claim.num_seqs > *num_reqs_max - num_queued_seqs()) {
    return Refused{
        RefusalReason::kQueuedReqs,
        fmt::format("{} sequences wait, and at most {} may", num_queued_seqs(), *num_reqs_max)};
  }
  const std::optional<int64_t>& num_tokens_max = limits_.max_num_queued_tokens;
  if (num_tokens_max && claim.num_prompt_tokens > *num_tokens_max - num_queued_tokens()) {
    return Refused{
        RefusalReason::kQueuedTokens,
        fmt::format(
            "{} prompt tokens wait, and at most {} may", num_queued_tokens(), *num_tokens_max
        )};
  }
  return std::nullopt;
}

Arrivals Admission::arrival_of(const Claim& claim) const {
  const bool has_place = num_queued_seqs() == 0 && claim.num_seqs <= num_free_places();
  return {
      .num_seqs_with_a_place = has_place ? claim.num_seqs : 0,
      .num_seqs_queued = has_place ? 0 : claim.num_seqs,
      .num_tokens = claim.num_prompt_tokens,
      .num_tokens_queued = has_place ? 0 : claim.num_prompt_tokens,
  };
}

void Admission::take(const Claim& claim, const Arrivals& arrival) {
  num_live_seqs_ += claim.num_seqs;
  num_result_bytes_ += claim.result_bytes.total(claim.num_seqs);
  arriving_ += arrival;
}

void Admission::release(const ResultBytes& bytes, bool is_last) {
  --num_live_seqs_;
  num_result_bytes_ -= bytes.of_choice + (is_last ? bytes.of_prompt : 0);
  CHECK(num_live_seqs_ >= 0 && num_result_bytes_ >= 0, "more was given back than taken");
}

void Admission::note_output(int32_t num_output_tokens) {
  const auto length = static_cast<double>(num_output_tokens);
  const double usual = usual_output_tokens_.value_or(length);
  usual_output_tokens_ = usual + (length - usual) * kOutputWeight;
}

void Admission::update(const Load& load, const Arrivals& taken) {
  load_ = load;
  arriving_ -= taken;
  CHECK(
      arriving_.num_seqs_queued >= 0 && arriving_.num_seqs_with_a_place >= 0,
      "more has arrived than was sent"
  );
}

// Who waits does so for want of KV blocks, if not of places: there is none for a newcomer then.
int32_t Admission::num_free_places() const {
  if (load_.num_waiting > 0) return 0;
  return max_num_seqs_ - load_.num_running - arriving_.num_seqs_with_a_place;
}

std::chrono::seconds Admission::retry_after(double tokens_per_second) const {
  if (!(tokens_per_second > 0.0)) return std::chrono::seconds(1);
  const auto num_prompt_tokens =
      static_cast<double>(load_.num_waiting_tokens + arriving_.num_tokens);
  const double num_output_tokens = usual_output_tokens_.value_or(0.0) * num_queued_seqs();
  const double seconds = std::ceil((num_prompt_tokens + num_output_tokens) / tokens_per_second);
  return std::chrono::seconds(static_cast<int64_t>(std::clamp(seconds, 1.0, kRetryAfterMax_s)));
}

}  // namespace millrace
