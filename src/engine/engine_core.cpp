#include "engine/engine_core.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "engine/forward_batch_builder.h"

namespace millrace {
namespace {

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
          .num_cached_tokens = sequence.timings().num_cached_tokens,
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
    : scheduler_(std::move(config)),
      runner_(std::move(runner)),
      sampler_(runner_->vocab_size(), scheduler_.config().eos_token_ids, runner_->idle_threads()),
      now_(std::move(now)) {
  CHECK(scheduler_.config().block_size == runner_->block_size(), "blocks of another size");
  CHECK(scheduler_.config().num_blocks <= runner_->num_blocks(), "more blocks than the runner has");
  if (record) recorder_.emplace(std::move(record), scheduler_.config());
}

EngineCore::~EngineCore() {
  if (launched_) runner_->wait();
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
  if (!launched_) launched_ = launch(events);
  if (!launched_) return events;
  std::optional<LaunchedStep> next;
  if (may_plan_behind(*launched_)) {
    scheduler_.assume(launched_->plan);
    next = launch(events);
  }
  settle(*launched_, events);
  launched_ = std::move(next);
  return events;
}

// Plans a step and has the runner begin it. none: nobody may do anything now.
std::optional<EngineCore::LaunchedStep> EngineCore::launch(std::vector<EngineEvent>& events) {
  const TimePoint begin = now_();
  StepPlan plan = this->plan(begin);
  append_finished(std::exchange(plan.dropped, {}), events);
  if (plan.is_empty()) return std::nullopt;
  ForwardBatch batch = build_forward_batch(plan);
  if (runner_->draws_tokens()) batch.draws = sampler_.draws(plan);
  runner_->launch(batch);
  return LaunchedStep{.plan = std::move(plan), .draws = std::move(batch.draws), .begin = begin};
}

// Whether all that the next plan has to know of this step is certain, or can stay on the runner's
// side: no token is chosen here, and none is guessed. A recording has one step after the other.
bool EngineCore::may_plan_behind(const LaunchedStep& step) const {
  if (!runner_->draws_tokens() || scheduler_.config().speculation || recorder_) return false;
  return std::ranges::all_of(step.draws, [](const auto& draw) { return draw.has_value(); });
}

// Waits for the step, and says what came of it.
void EngineCore::settle(const LaunchedStep& step, std::vector<EngineEvent>& events) {
  const StepResult result = runner_->wait();
  const std::vector<StepOutcome> outcomes = sampler_.sample(step.plan, step.draws, result, events);
  const TimePoint end = now_();
  std::vector<TokenEvent> tokens = token_events(step.plan, outcomes, end);
  std::vector<FinishedEvent> finished = commit(step.plan, outcomes, end);
  mark_stop_tokens(tokens, finished);
  events.insert(
      events.end(), std::make_move_iterator(tokens.begin()), std::make_move_iterator(tokens.end())
  );
  append_finished(std::move(finished), events);

  ++num_steps_;
  step_sizes_.add(step.plan.num_tokens);
  last_step_time_ = end - std::max(step.begin, last_end_);
  last_end_ = end;
}

}  // namespace millrace
