// For tests: what one sequence says when it runs alone, without scheduler, blocks or batches.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <variant>
#include <vector>

#include "engine/engine_event.h"
#include "engine/fake_voice.h"
#include "sampling/sampler.h"
#include "sched/request.h"
#include "sched/scheduler_config.h"

namespace millrace {

struct SequenceRecord {
  std::vector<TokenId> tokens;
  std::vector<std::vector<TokenLogprob>> logprobs;         // of each token
  std::vector<std::vector<TokenLogprob>> prompt_logprobs;  // of prompt tokens 1, 2, ...
  std::vector<FinishedEvent> finished;

  // The same record, event by event. Checks the order of events as it goes.
  void append(const EngineEvent& event) {
    EXPECT_TRUE(finished.empty()) << "an event after the end";
    if (const auto* token = std::get_if<TokenEvent>(&event)) {
      tokens.push_back(token->token.id);
      logprobs.push_back(token->token.logprobs);
    } else if (const auto* prompt = std::get_if<PromptLogprobsEvent>(&event)) {
      EXPECT_TRUE(tokens.empty()) << "prompt logprobs after an output token";
      EXPECT_EQ(prompt->first_position, static_cast<int32_t>(prompt_logprobs.size()) + 1);
      prompt_logprobs.insert(
          prompt_logprobs.end(), prompt->logprobs.begin(), prompt->logprobs.end()
      );
    } else {
      finished.push_back(std::get<FinishedEvent>(event));
      EXPECT_EQ(finished[0].timings.num_output_tokens, static_cast<int32_t>(tokens.size()));
    }
  }
};

inline int32_t choice_of(const EngineEvent& event) {
  if (const auto* token = std::get_if<TokenEvent>(&event)) return token->choice;
  if (const auto* finished = std::get_if<FinishedEvent>(&event)) return finished->choice;
  return 0;
}

inline SequenceRecord run_alone(
    const Request& request, int32_t choice, const SchedulerConfig& config, const FakeVoice& voice
) {
  Sampler sampler;
  SequenceRecord record;
  FakeState state;
  for (size_t i = 0; i < request.prompt.size(); ++i) {
    if (i > 0 && request.sampling.prompt_logprobs && choice == 0) {
      std::vector<float> logits;
      append_fake_logits(state, voice, logits);
      record.prompt_logprobs.push_back(
          sampler.logprobs(logits, request.prompt[i], *request.sampling.prompt_logprobs)
      );
    }
    extend(state, request.prompt[i]);
  }
  const SamplingParams& params = request.sampling;
  const auto num_tokens_max = std::min<size_t>(
      static_cast<size_t>(params.max_tokens),
      static_cast<size_t>(num_sequence_tokens_max(config)) - request.prompt.size()
  );
  const auto contains = [](std::span<const TokenId> ids, TokenId id) {
    return std::ranges::find(ids, id) != ids.end();
  };
  while (record.tokens.size() < num_tokens_max) {
    std::vector<float> logits;
    append_fake_logits(state, voice, logits);
    std::optional<SampledToken> token = sampler.sample(
        logits,
        {.params = params,
         .seed = request.seed,
         .choice = choice,
         .prompt = request.prompt,
         .output = record.tokens,
         .eos_token_ids = config.eos_token_ids}
    );
    if (!token) break;  // the engine ends it with an error
    record.tokens.push_back(token->id);
    record.logprobs.push_back(std::move(token->logprobs));
    extend(state, token->id);
    const bool is_eos = !params.ignore_eos && contains(config.eos_token_ids, token->id);
    const bool may_stop = record.tokens.size() >= static_cast<size_t>(params.min_tokens);
    if (may_stop && (is_eos || contains(params.stop_token_ids, token->id))) break;
  }
  return record;
}

}  // namespace millrace
