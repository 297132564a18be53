#include "engine/step_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace millrace {
namespace {

// Neither infinite nor NaN, any of them. On the bits, and without an early exit, so that the
// compiler turns it into a few vector instructions: it reads a whole vocabulary for each token.
bool are_finite(std::span<const float> logits) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t num_bad = 0;
  for (const float logit : logits) {
    num_bad += (std::bit_cast<uint32_t>(logit) & kExponent) == kExponent ? 1U : 0U;
  }
  return num_bad == 0;
}

}  // namespace

StepSampler::Draws StepSampler::draws(const StepPlan& plan) const {
  Draws draws;
  draws.reserve(static_cast<size_t>(plan.num_logit_rows));
  for (const ScheduledSequence& scheduled : plan.scheduled) {
    // The last rows: that of the last token, and those of the drafts.
    const int32_t num_sampled = scheduled.samples ? 1 + scheduled.num_drafts : 0;
    for (int32_t i = num_sampled; i < scheduled.num_logit_rows; ++i) draws.emplace_back();
    for (int32_t i = 0; i < num_sampled; ++i) draws.push_back(draw_params(input_of(scheduled, i)));
  }
  return draws;
}

SamplingInput StepSampler::input_of(const ScheduledSequence& scheduled, int32_t num_drafts) const {
  const Sequence& sequence = *scheduled.sequence;
  const Request& request = sequence.request();
  return {
      .params = request.sampling,
      .seed = request.seed,
      .choice = sequence.choice(),
      .prompt = request.prompt,
      .output = sequence.output_with_drafts(num_drafts),
      .eos_token_ids = eos_token_ids_,
  };
}

std::vector<StepOutcome> StepSampler::sample(
    const StepPlan& plan,
    const Draws& draws,
    const StepResult& result,
    std::vector<EngineEvent>& events
) {
  read_rows(plan, draws, result);
  std::vector<StepOutcome> outcomes;
  outcomes.reserve(plan.scheduled.size());
  std::span<const Row> rows = rows_;
  for (const ScheduledSequence& scheduled : plan.scheduled) {
    const auto num_rows = static_cast<size_t>(scheduled.num_logit_rows);
    outcomes.push_back(sample_sequence(scheduled, rows.first(num_rows), events));
    rows = rows.subspan(num_rows);
  }
  return outcomes;
}

void StepSampler::read_rows(const StepPlan& plan, const Draws& draws, const StepResult& result) {
  const auto num_rows = static_cast<size_t>(plan.num_logit_rows);
  CHECK(draws.empty() || draws.size() == num_rows, "a draw for each row, or none");
  rows_.assign(num_rows, {});
  std::span<const float> logits = result.logits;
  std::span<const std::optional<SampledToken>> drawn = result.drawn;
  for (size_t i = 0; i < num_rows; ++i) {
    if (!draws.empty() && draws[i]) {
      CHECK(!drawn.empty(), "the model drew too few tokens");
      rows_[i].drawn = drawn.data();
      drawn = drawn.subspan(1);
    } else {
      CHECK(logits.size() >= vocab_size_, "the model returned logits of another shape");
      rows_[i].logits = logits.first(vocab_size_);
      logits = logits.subspan(vocab_size_);
    }
  }
  CHECK(logits.empty() && drawn.empty(), "the model returned logits of another shape");
}

bool StepSampler::is_usable(const Row& row) {
  return row.drawn != nullptr ? row.drawn->has_value() : are_finite(row.logits);
}

// `rows`: [scheduled.num_logit_rows]: those of prompt positions give the logprob of the token after
// each; the row of the sequence's last token, if it is among them, gives the next token, and the
// rows of its drafts those after it.
StepOutcome StepSampler::sample_sequence(
    const ScheduledSequence& scheduled, std::span<const Row> rows, std::vector<EngineEvent>& events
) {
  if (rows.empty() || scheduled.is_void()) return NothingSampled{};
  // A row of a draft is nobody's until the draft turns out to be right.
  const auto num_known_rows = static_cast<size_t>(scheduled.num_logit_rows - scheduled.num_drafts);
  if (!std::ranges::all_of(rows.first(num_known_rows), is_usable)) {
    return Error{
        ErrorCode::kInternal,
        fmt::format(
            "the model's logits are not finite at positions {} to {}",
            scheduled.first_logit_row(),
            scheduled.end_token() - scheduled.num_drafts - 1
        ),
    };
  }
  const size_t num_prompt_rows = num_known_rows - (scheduled.samples ? 1 : 0);
  append_prompt_logprobs(scheduled, rows.first(num_prompt_rows), events);
  if (!scheduled.samples) return NothingSampled{};
  return sample_tokens(scheduled, rows.subspan(num_prompt_rows));
}

// `rows`: [number of prompt rows], the first of the stretch.
void StepSampler::append_prompt_logprobs(
    const ScheduledSequence& scheduled, std::span<const Row> rows, std::vector<EngineEvent>& events
) {
  if (rows.empty()) return;
  const Sequence& sequence = *scheduled.sequence;
  const Request& request = sequence.request();
  PromptLogprobsEvent prompt{
      .request = request.id, .first_position = scheduled.first_logit_row() + 1};
  int32_t position = prompt.first_position;
  for (const Row& row : rows) {
    prompt.logprobs.push_back(
        sampler_.logprobs(row.logits, sequence.token(position++), *request.sampling.prompt_logprobs)
    );
  }
  events.emplace_back(std::move(prompt));
}

// `rows`: [1 + number of drafts]. Each token is chosen from its own logits and all tokens before
// it, as in a step of its own, until one differs from its draft: the logits behind a wrong guess
// are of another text. Nor is a row used whose step would have failed: the next step has it first,
// and fails as it would have without drafts.
StepOutcome StepSampler::sample_tokens(
    const ScheduledSequence& scheduled, std::span<const Row> rows
) {
  const std::span<const TokenId> drafts = scheduled.sequence->drafts();
  SampledTokens tokens;
  for (int32_t i = 0; i <= scheduled.num_drafts; ++i) {
    const Row& row = rows[static_cast<size_t>(i)];
    if (i > 0 && !is_usable(row)) break;
    std::optional<SampledToken> token =
        row.drawn != nullptr ? *row.drawn : sampler_.sample(row.logits, input_of(scheduled, i));
    if (!token) break;
    tokens.push_back(*std::move(token));
    if (i == scheduled.num_drafts) break;
    if (tokens.back().id != drafts[static_cast<size_t>(i)]) break;
  }
  if (!tokens.empty()) return tokens;
  return invalid_argument(
      "the constraints leave no token: allowed_token_ids, bad_words, logit_bias and min_tokens "
      "forbid all"
  );
}

}  // namespace millrace
