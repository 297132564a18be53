// What a request asks of the choice of each next token. Field names are those of the OpenAI and
// vLLM protocols.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "base/shared_list.h"

namespace millrace {

// Bounds on lists from outside; far above any use, far below what would hurt. Of allowed_token_ids
// there are as many as tokens; a bad word is up to two sequences, at a text's start and after a
// space.
constexpr size_t kLogitBiasMax = 1024;
constexpr size_t kBadWordsMax = 1024;
constexpr size_t kBadWordTokensMax = 64;
constexpr size_t kStopTokenIdsMax = 1024;
constexpr float kTemperatureMax = 2.0F;

struct SamplingParams {
  float temperature = 1.0F;  // 0: greedy
  int32_t top_k = 0;         // 0 or -1: all
  float top_p = 1.0F;
  float min_p = 0.0F;
  std::optional<uint64_t> seed;     // none: the engine draws one
  float presence_penalty = 0.0F;    // over generated tokens
  float frequency_penalty = 0.0F;   // over generated tokens
  float repetition_penalty = 1.0F;  // over prompt and generated tokens
  SharedList<std::pair<TokenId, float>> logit_bias;
  std::optional<SharedList<TokenId>> allowed_token_ids;
  SharedList<std::vector<TokenId>> bad_words;  // token sequences that must not be completed

  int32_t max_tokens = 16;
  int32_t min_tokens = 0;  // until then no end-of-sequence or stop token is chosen
  bool ignore_eos = false;
  SharedList<TokenId> stop_token_ids;
  int32_t n = 1;

  std::optional<int32_t> logprobs;         // how many most likely tokens beside the chosen one
  std::optional<int32_t> prompt_logprobs;  // the same for each prompt token
};

struct SamplingLimits {
  int64_t vocab_size = 0;
  int32_t n_max = 128;
  int32_t logprobs_max = 20;
};

// Checks every range. The error's `where` is the field, or what is wrong in it
// ("stop_token_ids[2]", "logit_bias.17"); its `reason` says how.
Result<void> validate(const SamplingParams& params, const SamplingLimits& limits);

}  // namespace millrace
