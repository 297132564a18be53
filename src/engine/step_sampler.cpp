#include "engine/step_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/check.h"

namespace millrace {
namespace {

// Rows of prompt positions come first, then that of the last token and those of its drafts.
int32_t num_prompt_rows(const ScheduledSequence& scheduled) {
  return scheduled.num_logit_rows - (scheduled.samples ? 1 + scheduled.num_drafts : 0);
}

}  // namespace

StepSampler::StepSampler(
    int64_t vocab_size, std::vector<TokenId> eos_token_ids, ThreadPool* threads
)
    : vocab_size_(static_cast<size_t>(vocab_size)),
      eos_token_ids_(std::move(eos_token_ids)),
      threads_(threads),
      samplers_(threads == nullptr ? 1 : threads->num_threads()) {}

StepSampler::Draws StepSampler::draws(const StepPlan& plan) const {
  Draws draws;
  draws.reserve(static_cast<size_t>(plan.num_logit_rows));
  for (const ScheduledSequence& scheduled : plan.scheduled) {
    const int32_t num_sampled = scheduled.num_logit_rows - num_prompt_rows(scheduled);
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
  take_rows(plan, draws, result);
  read_rows();
  std::vector<StepOutcome> outcomes;
  outcomes.reserve(plan.scheduled.size());
  std::span<Row> rows = rows_;
  for (const ScheduledSequence& scheduled : plan.scheduled) {
    const auto num_rows = static_cast<size_t>(scheduled.num_logit_rows);
    outcomes.push_back(outcome_of(scheduled, rows.first(num_rows), events));
    rows = rows.subspan(num_rows);
  }
  return outcomes;
}

void StepSampler::take_rows(const StepPlan& plan, const Draws& draws, const StepResult& result) {
  const auto num_rows = static_cast<size_t>(plan.num_logit_rows);
  CHECK(draws.empty() || draws.size() == num_rows, "a draw for each row, or none");
  rows_.clear();
  rows_.reserve(num_rows);
  std::span<const float> logits = result.logits;
  std::span<const std::optional<SampledToken>> drawn = result.drawn;
  for (const ScheduledSequence& scheduled : plan.scheduled) {
    for (int32_t i = 0; i < scheduled.num_logit_rows; ++i) {
      const bool is_drawn = !draws.empty() && draws[rows_.size()];
      Row& row = rows_.emplace_back();
      row.scheduled = &scheduled;
      row.index = i;
      if (is_drawn) {
        CHECK(!drawn.empty(), "the model drew too few tokens");
        row.token = drawn.front();
        row.is_usable = row.token.has_value();
        drawn = drawn.subspan(1);
      } else {
        CHECK(logits.size() >= vocab_size_, "the model returned logits of another shape");
        row.logits = logits.first(vocab_size_);
        logits = logits.subspan(vocab_size_);
      }
    }
  }
  CHECK(rows_.size() == num_rows, "a plan counts its rows");
  CHECK(logits.empty() && drawn.empty(), "the model returned logits of another shape");
}

// Each by whichever thread comes by: rows take unequal time, and which reads one changes nothing.
void StepSampler::read_rows() {
  std::atomic<size_t> next = 0;
  const auto read_some = [&](Sampler& sampler) {
    for (size_t i = next.fetch_add(1); i < rows_.size(); i = next.fetch_add(1)) {
      read_row(rows_[i], sampler);
    }
  };
  if (threads_ == nullptr || rows_.size() <= 1) return read_some(samplers_.front());
  threads_->parallel_for(samplers_.size(), [&](size_t begin, size_t end) {
    for (size_t thread = begin; thread < end; ++thread) read_some(samplers_[thread]);
  });
}

// The row of a draft, too: a draft that turns out to be wrong has cost a look at a row.
void StepSampler::read_row(Row& row, Sampler& sampler) const {
  const ScheduledSequence& scheduled = *row.scheduled;
  if (row.logits.empty() || scheduled.is_void()) return;
  row.is_usable = sampler.read(row.logits);
  if (!row.is_usable) return;
  const int32_t num_drafts = row.index - num_prompt_rows(scheduled);
  if (num_drafts >= 0) {
    row.token = sampler.sample(input_of(scheduled, num_drafts));
  } else {
    const Sequence& sequence = *scheduled.sequence;
    const TokenId next = sequence.token(scheduled.first_logit_row() + row.index + 1);
    row.prompt_logprobs = sampler.logprobs(next, *sequence.request().sampling.prompt_logprobs);
  }
}

// `rows`: [scheduled.num_logit_rows]: those of prompt positions gave the logprob of the token after
// each; the row of the sequence's last token, if it is among them, gave the next token, and the
// rows of its drafts those after it.
StepOutcome StepSampler::outcome_of(
    const ScheduledSequence& scheduled, std::span<Row> rows, std::vector<EngineEvent>& events
) {
  if (rows.empty() || scheduled.is_void()) return NothingSampled{};
  // A row of a draft is nobody's until the draft turns out to be right.
  const auto num_known_rows = static_cast<size_t>(scheduled.num_logit_rows - scheduled.num_drafts);
  if (!std::ranges::all_of(rows.first(num_known_rows), &Row::is_usable)) {
    return Error{
        ErrorCode::kInternal,
        fmt::format(
            "the model's logits are not finite at positions {} to {}",
            scheduled.first_logit_row(),
            scheduled.end_token() - scheduled.num_drafts - 1
        ),
    };
  }
  const auto num_of_prompt = static_cast<size_t>(num_prompt_rows(scheduled));
  append_prompt_logprobs(scheduled, rows.first(num_of_prompt), events);
  if (!scheduled.samples) return NothingSampled{};
  return tokens_of(scheduled, rows.subspan(num_of_prompt));
}

// `rows`: [number of prompt rows], the first of the stretch.
void StepSampler::append_prompt_logprobs(
    const ScheduledSequence& scheduled, std::span<Row> rows, std::vector<EngineEvent>& events
) {
  if (rows.empty()) return;
  PromptLogprobsEvent prompt{
      .request = scheduled.sequence->request().id,
      .first_position = scheduled.first_logit_row() + 1};
  for (Row& row : rows) prompt.logprobs.push_back(std::move(row.prompt_logprobs));
  events.emplace_back(std::move(prompt));
}

// `rows`: [1 + number of drafts]. Each token was chosen from its own logits and all tokens before
// it, as in a step of its own; they count until one differs from its draft: the logits behind a
// wrong guess are of another text. Nor is a row used whose step would have failed: the next step
// has it first, and fails as it would have without drafts.
StepOutcome StepSampler::tokens_of(const ScheduledSequence& scheduled, std::span<Row> rows) {
  const std::span<const TokenId> drafts = scheduled.sequence->drafts();
  SampledTokens tokens;
  for (size_t i = 0; i < rows.size() && rows[i].token; ++i) {
    tokens.push_back(*std::move(rows[i].token));
    if (i + 1 < rows.size() && tokens.back().id != drafts[i]) break;
  }
  if (!tokens.empty()) return tokens;
  return invalid_argument(
      "the constraints leave no token: allowed_token_ids, bad_words, logit_bias and min_tokens "
      "forbid all, or repetition_penalty takes scores beyond what a float holds"
  );
}

}  // namespace millrace
