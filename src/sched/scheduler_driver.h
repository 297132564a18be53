// For tests of the scheduler: a model that says what it is told to, and a clock that counts the
// steps.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "sched/scheduler.h"

namespace millrace {

inline constexpr TokenId kEos = 0;
inline constexpr TokenId kAnyToken = 9;

// (request, choice, first token, number of tokens): a line of a plan, to be compared.
using Line = std::tuple<uint64_t, int32_t, int32_t, int32_t>;

inline TimePoint at(int seconds) {
  return TimePoint(std::chrono::seconds(seconds));
}

class SchedulerDriver {
 public:
  explicit SchedulerDriver(SchedulerConfig config) : scheduler_(config) {}

  uint64_t add(Request request) {
    request.id = RequestId{next_id_++};
    request.arrival = at(now_);
    const uint64_t id = request.id.value;
    EXPECT_TRUE(scheduler_.add(std::move(request)).ok());
    return id;
  }
  uint64_t add(int32_t num_prompt_tokens, int32_t max_tokens = 100, int32_t priority = 0) {
    Request request;
    request.prompt.assign(static_cast<size_t>(num_prompt_tokens), 7);
    request.sampling.max_tokens = max_tokens;
    request.priority = priority;
    return add(std::move(request));
  }

  // One step, in which every sequence that samples gets `token`; returns its plan as lines.
  std::vector<Line> step(TokenId token = kAnyToken) {
    const StepPlan plan = this->plan();
    std::vector<Line> lines = this->lines(plan);
    if (!plan.is_empty()) commit(plan, token);
    return lines;
  }

  // A step in its parts, for plans that are made while the one before is in flight.
  StepPlan plan() {
    StepPlan plan = scheduler_.plan(at(now_++));
    scheduler_.check_invariants();
    finished = plan.dropped;
    num_logit_rows = plan.num_logit_rows;
    copies = plan.copies;
    num_resumed = 0;
    drafts.clear();
    for (const ScheduledSequence& s : plan.scheduled) {
      if (s.resumed_from) ++num_resumed;
      drafts.emplace_back(s.sequence->drafts().begin(), s.sequence->drafts().end());
    }
    return plan;
  }
  StepPlan plan_behind(const StepPlan& plan) {
    scheduler_.assume(plan);
    scheduler_.check_invariants();
    return this->plan();
  }
  void commit(const StepPlan& plan, TokenId token = kAnyToken) {
    std::vector<StepOutcome> outcomes;
    for (const ScheduledSequence& s : plan.scheduled) outcomes.push_back(outcome(s, token));
    for (FinishedEvent& event : scheduler_.commit(plan, outcomes, at(now_))) {
      finished.push_back(std::move(event));
    }
    scheduler_.check_invariants();
  }

  static std::vector<Line> lines(const StepPlan& plan) {
    std::vector<Line> lines;
    for (const ScheduledSequence& s : plan.scheduled) {
      lines.emplace_back(
          s.sequence->request().id.value, s.sequence->choice(), s.first_token, s.num_tokens
      );
    }
    return lines;
  }

  // Steps until nothing is left; the events of each request, by id.
  std::map<uint64_t, std::vector<FinishedEvent>> run() {
    std::map<uint64_t, std::vector<FinishedEvent>> all;
    for (int i = 0; !scheduler_.is_idle(); ++i) {
      EXPECT_LT(i, 10000) << "the scheduler gets nowhere";
      if (i >= 10000) break;
      step();
      for (const FinishedEvent& event : finished) all[event.request.value].push_back(event);
    }
    return all;
  }

  Scheduler& scheduler() { return scheduler_; }
  int now() const { return now_; }

  std::vector<FinishedEvent> finished;             // since the last plan
  int32_t num_logit_rows = 0;                      // of the last step
  int32_t num_resumed = 0;                         // of the last step
  std::vector<BlockCopy> copies;                   // of the last step
  std::map<uint64_t, TokenId> tokens;              // of one request instead of the step's token
  std::map<uint64_t, std::vector<TokenId>> texts;  // of one request, before that
  std::vector<std::vector<TokenId>> drafts;        // of the last step, of each of its lines
  std::map<uint64_t, Error> errors;                // of one request instead of a token

 private:
  StepOutcome outcome(const ScheduledSequence& scheduled, TokenId token) {
    const uint64_t id = scheduled.sequence->request().id.value;
    if (errors.contains(id)) return errors[id];
    if (!scheduled.samples) return NothingSampled{};
    SampledTokens chosen;
    const std::span<const TokenId> guesses = scheduled.sequence->drafts();
    for (size_t i = 0; i <= guesses.size(); ++i) {
      chosen.push_back({.id = next_token(scheduled, i, token), .logprobs = {}});
      if (i == guesses.size() || chosen.back().id != guesses[i]) break;
    }
    return chosen;
  }

  // What the model says after the output and `num_more` tokens.
  TokenId next_token(const ScheduledSequence& scheduled, size_t num_more, TokenId otherwise) {
    const uint64_t id = scheduled.sequence->request().id.value;
    const size_t place = scheduled.sequence->output().size() + num_more;
    if (texts.contains(id) && place < texts[id].size()) return texts[id][place];
    return tokens.contains(id) ? tokens[id] : otherwise;
  }

  Scheduler scheduler_;
  uint64_t next_id_ = 0;
  int now_ = 0;
};

// Room for everything, and no prefixes but those of choices.
inline SchedulerConfig roomy() {
  return {
      .max_num_batched_tokens = 16,
      .long_prefill_token_threshold = 16,
      .max_num_seqs = 4,
      .max_logit_rows = 4,
      .max_model_len = 64,
      .block_size = 4,
      .num_blocks = 64,
      .enable_prefix_caching = false,
      .eos_token_ids = {kEos},
  };
}

}  // namespace millrace
