#include "engine/engine_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "engine/forward_batch_builder.h"

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

std::vector<TokenEvent> token_events(
    const StepPlan& plan, std::span<const StepOutcome> outcomes, TimePoint when
) {
  std::vector<TokenEvent> events;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const auto* tokens = std::get_if<SampledTokens>(&outcomes[i]);
    if (tokens == nullptr) continue;
    const Sequence& sequence = *plan.scheduled[i].sequence;
    for (const SampledToken& token : *tokens) {
      events.push_back({
          .request = sequence.request().id,
          .choice = sequence.choice(),
          .token = token,
          .when = when,
      });
    }
  }
  return events;
}

// `tokens` and `finished` are of one step and both in the plan's order. A sequence may have several
// tokens: the last one ended it.
void mark_stop_tokens(std::vector<TokenEvent>& tokens, std::span<const FinishedEvent> finished) {
  auto token = tokens.begin();
  for (const FinishedEvent& end : finished) {
    if (!end.stop_token) continue;
    const auto is_of_it = [&end](const TokenEvent& event) {
      return event.request == end.request && event.choice == end.choice;
    };
    token = std::find_if(token, tokens.end(), is_of_it);
    token = std::find_if_not(token, tokens.end(), is_of_it);
    (token - 1)->is_stop_token = true;
  }
}

void append_finished(std::vector<FinishedEvent> finished, std::vector<EngineEvent>& events) {
  for (FinishedEvent& event : finished) events.emplace_back(std::move(event));
}

}  // namespace

EngineCore::EngineCore(
    SchedulerConfig config,
    std::unique_ptr<ModelRunner> runner,
    std::function<TimePoint()> now,
    StepRecorder::Write record
)
    : scheduler_(std::move(config)), runner_(std::move(runner)), now_(std::move(now)) {
  CHECK(scheduler_.config().block_size == runner_->block_size(), "blocks of another size");
  CHECK(scheduler_.config().num_blocks <= runner_->num_blocks(), "more blocks than the runner has");
  if (record) recorder_.emplace(std::move(record), scheduler_.config());
}

Result<void> EngineCore::add(Request request) {
  const bool is_runnable = check_runnable(scheduler_.config(), request.prompt.size()).ok();
  if (recorder_ && is_runnable) recorder_->add(request);
  return scheduler_.add(std::move(request));
}

void EngineCore::cancel(RequestId id) {
  if (recorder_) recorder_->cancel(id, std::nullopt);
  scheduler_.cancel(id);
}

void EngineCore::cancel(RequestId id, int32_t choice) {
  if (recorder_) recorder_->cancel(id, choice);
  scheduler_.cancel(id, choice);
}

void EngineCore::cancel_all() {
  if (recorder_) recorder_->cancel(std::nullopt, std::nullopt);
  scheduler_.cancel_all();
}

StepPlan EngineCore::plan(TimePoint now) {
  if (recorder_) recorder_->flush();
  StepPlan plan = scheduler_.plan(now);
  if (recorder_) recorder_->plan(plan, now);
  if (recorder_ && plan.is_empty()) recorder_->flush();  // no commit follows
  return plan;
}

std::vector<FinishedEvent> EngineCore::commit(
    const StepPlan& plan, std::span<const StepOutcome> outcomes, TimePoint now
) {
  if (recorder_) {
    recorder_->commit(outcomes, now);
    recorder_->flush();
  }
  return scheduler_.commit(plan, outcomes, now);
}

std::vector<EngineEvent> EngineCore::step() {
  std::vector<EngineEvent> events;
  const TimePoint begin = now_();
  StepPlan plan = this->plan(begin);
  append_finished(std::exchange(plan.dropped, {}), events);
  if (plan.is_empty()) return events;

  const std::span<const float> logits = runner_->forward(build_forward_batch(plan));
  const std::vector<StepOutcome> outcomes = sample(plan, logits, events);
  const TimePoint end = now_();
  std::vector<TokenEvent> tokens = token_events(plan, outcomes, end);
  std::vector<FinishedEvent> finished = commit(plan, outcomes, end);
  mark_stop_tokens(tokens, finished);
  events.insert(
      events.end(), std::make_move_iterator(tokens.begin()), std::make_move_iterator(tokens.end())
  );
  append_finished(std::move(finished), events);

  ++num_steps_;
  step_sizes_.add(plan.num_tokens);
  last_step_time_ = end - begin;
  return events;
}

// `logits`: [plan.num_logit_rows, vocab_size].
std::vector<StepOutcome> EngineCore::sample(
    const StepPlan& plan, std::span<const float> logits, std::vector<EngineEvent>& events
) {
  const auto vocab_size = static_cast<size_t>(runner_->vocab_size());
  CHECK(
      logits.size() == static_cast<size_t>(plan.num_logit_rows) * vocab_size,
      "the model returned logits of another shape"
  );
  std::vector<StepOutcome> outcomes;
  outcomes.reserve(plan.scheduled.size());
  size_t row = 0;
  for (const ScheduledSequence& scheduled : plan.scheduled) {
    const auto num_rows = static_cast<size_t>(scheduled.num_logit_rows);
    outcomes.push_back(
        sample_sequence(scheduled, logits.subspan(row * vocab_size, num_rows * vocab_size), events)
    );
    row += num_rows;
  }
  return outcomes;
}

// `logits`: [scheduled.num_logit_rows, vocab_size]: rows of prompt positions give the logprob of
// the token after each; the row of the sequence's last token, if it is among them, gives the next
// token, and the rows of its drafts those after it.
StepOutcome EngineCore::sample_sequence(
    const ScheduledSequence& scheduled,
    std::span<const float> logits,
    std::vector<EngineEvent>& events
) {
  if (scheduled.num_logit_rows == 0) return NothingSampled{};
  const auto vocab_size = static_cast<size_t>(runner_->vocab_size());
  // A row of a draft is nobody's until the draft turns out to be right.
  const auto num_known_rows = static_cast<size_t>(scheduled.num_logit_rows - scheduled.num_drafts);
  if (!are_finite(logits.first(num_known_rows * vocab_size))) {
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
  append_prompt_logprobs(scheduled, logits.first(num_prompt_rows * vocab_size), events);
  if (!scheduled.samples) return NothingSampled{};
  return sample_tokens(scheduled, logits.subspan(num_prompt_rows * vocab_size));
}

// `logits`: [number of prompt rows, vocab_size], the first of the stretch.
void EngineCore::append_prompt_logprobs(
    const ScheduledSequence& scheduled,
    std::span<const float> logits,
    std::vector<EngineEvent>& events
) {
  if (logits.empty()) return;
  const Sequence& sequence = *scheduled.sequence;
  const Request& request = sequence.request();
  const auto vocab_size = static_cast<size_t>(runner_->vocab_size());
  PromptLogprobsEvent prompt{
      .request = request.id, .first_position = scheduled.first_logit_row() + 1};
  for (int32_t position = prompt.first_position; !logits.empty(); ++position) {
    prompt.logprobs.push_back(sampler_.logprobs(
        logits.first(vocab_size), sequence.token(position), *request.sampling.prompt_logprobs
    ));
    logits = logits.subspan(vocab_size);
  }
  events.emplace_back(std::move(prompt));
}

// `logits`: [1 + number of drafts, vocab_size]. Each token is chosen from its own logits and all
// tokens before it, as in a step of its own, until one differs from its draft: the logits behind a
// wrong guess are of another text. Nor is a row used whose step would have failed: the next step
// has it first, and fails as it would have without drafts.
StepOutcome EngineCore::sample_tokens(
    const ScheduledSequence& scheduled, std::span<const float> logits
) {
  const Sequence& sequence = *scheduled.sequence;
  const Request& request = sequence.request();
  const auto vocab_size = static_cast<size_t>(runner_->vocab_size());
  SampledTokens tokens;
  for (int32_t i = 0; i <= scheduled.num_drafts; ++i) {
    const std::span<const float> row =
        logits.subspan(static_cast<size_t>(i) * vocab_size, vocab_size);
    if (i > 0 && !are_finite(row)) break;
    std::optional<SampledToken> token = sampler_.sample(
        row,
        {
            .params = request.sampling,
            .seed = request.seed,
            .choice = sequence.choice(),
            .prompt = request.prompt,
            .output = sequence.output_with_drafts(i),
            .eos_token_ids = scheduler_.config().eos_token_ids,
        }
    );
    if (!token) break;
    tokens.push_back(*std::move(token));
    if (i == scheduled.num_drafts) break;
    if (tokens.back().id != sequence.drafts()[static_cast<size_t>(i)]) break;
  }
  if (!tokens.empty()) return tokens;
  return invalid_argument(
      "the constraints leave no token: allowed_token_ids, bad_words, logit_bias and min_tokens "
      "forbid all"
  );
}

}  // namespace millrace
