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
    const auto* token = std::get_if<SampledToken>(&outcomes[i]);
    if (token == nullptr) continue;
    const Sequence& sequence = *plan.scheduled[i].sequence;
    events.push_back({
        .request = sequence.request().id,
        .choice = sequence.choice(),
        .token = *token,
        .when = when,
    });
  }
  return events;
}

// `tokens` and `finished` are of one step and both in the plan's order.
void mark_stop_tokens(std::vector<TokenEvent>& tokens, std::span<const FinishedEvent> finished) {
  auto token = tokens.begin();
  for (const FinishedEvent& end : finished) {
    if (!end.stop_token) continue;
    while (token->request != end.request || token->choice != end.choice) ++token;
    token->is_stop_token = true;
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
// token.
StepOutcome EngineCore::sample_sequence(
    const ScheduledSequence& scheduled,
    std::span<const float> logits,
    std::vector<EngineEvent>& events
) {
  if (scheduled.num_logit_rows == 0) return NothingSampled{};
  const Sequence& sequence = *scheduled.sequence;
  const Request& request = sequence.request();
  if (!are_finite(logits)) {
    return Error{
        ErrorCode::kInternal,
        fmt::format(
            "the model's logits are not finite at positions {} to {}",
            scheduled.first_logit_row(),
            scheduled.end_token() - 1
        ),
    };
  }

  const auto vocab_size = static_cast<size_t>(runner_->vocab_size());
  PromptLogprobsEvent prompt{
      .request = request.id, .first_position = scheduled.first_logit_row() + 1};
  const int32_t last_prompt_row = scheduled.end_token() - (scheduled.samples() ? 1 : 0);
  for (int32_t position = scheduled.first_logit_row(); position < last_prompt_row; ++position) {
    prompt.logprobs.push_back(sampler_.logprobs(
        logits.first(vocab_size), sequence.token(position + 1), *request.sampling.prompt_logprobs
    ));
    logits = logits.subspan(vocab_size);
  }
  if (!prompt.logprobs.empty()) events.emplace_back(std::move(prompt));
  if (!scheduled.samples()) return NothingSampled{};
  std::optional<SampledToken> sampled = sampler_.sample(
      logits,
      {
          .params = request.sampling,
          .seed = request.seed,
          .choice = sequence.choice(),
          .prompt = request.prompt,
          .output = sequence.output(),
          .eos_token_ids = scheduler_.config().eos_token_ids,
      }
  );
  if (sampled) return *std::move(sampled);
  return invalid_argument(
      "the constraints leave no token: allowed_token_ids, bad_words, logit_bias and min_tokens "
      "forbid all"
  );
}

}  // namespace millrace
