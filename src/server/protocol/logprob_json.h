// Tokens and their logprobs as OpenAI's and vLLM's answers word them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sampling/sampler.h"
#include "server/protocol/generation_request.h"
#include "text/tokenizer.h"

namespace millrace {

// The logprobs of one position, best first: a view of a list as the sampler makes it, which has the
// chosen token in front and the others in order. Equally likely ones go by their ids.
class BestFirst {
 public:
  // REQUIRES: `logprobs` is not empty.
  explicit BestFirst(std::span<const TokenLogprob> logprobs);

  size_t size() const { return logprobs_.size(); }
  size_t chosen_place() const { return chosen_place_; }
  const TokenLogprob& operator[](size_t place) const {
    if (place == chosen_place_) return logprobs_.front();
    return logprobs_[place < chosen_place_ ? place + 1 : place];
  }

 private:
  std::span<const TokenLogprob> logprobs_;
  size_t chosen_place_ = 0;
};

// One position of a text. `logprobs`: the token itself, then the most likely others; empty: none
// are known, as of the first token of a prompt.
struct TokenAt {
  TokenId id = 0;
  std::span<const TokenLogprob> logprobs;
  int64_t text_offset = 0;  // in characters (ChoiceResult::text_offsets)
};

// Borrows request and tokenizer. Immutable.
class LogprobWording {
 public:
  LogprobWording(const GenerationRequest& request, const Tokenizer& tokenizer)
      : request_(request), tokenizer_(tokenizer) {}

  // {"content":[{"token","logprob","bytes","top_logprobs"}],"refusal":null}: of each token as many
  // of the most likely as were asked for, best first, whether the chosen one is among them or not.
  void append_chat(std::span<const SampledToken> tokens, std::string& out) const;

  // {"tokens","token_logprobs","top_logprobs","text_offset"}: the same, and the chosen one always.
  // Where two tokens have one name, the better one stands in "top_logprobs": a JSON object has each
  // key once.
  void append_completion(std::span<const TokenAt> tokens, std::string& out) const;

  // vLLM's prompt_logprobs: [null, {"<id>": {"logprob","rank","decoded_token"}}, ...]. The rank
  // counts from 1; it is null for a token that is not among the most likely, because nobody counted
  // how many are better.
  void append_prompt_logprobs(std::span<const std::vector<TokenLogprob>> logprobs, std::string& out)
      const;

 private:
  size_t num_top() const;
  void append_chat_token(const TokenLogprob& token, std::string& out) const;
  void append_top_logprobs(std::span<const TokenLogprob> logprobs, std::string& out) const;
  void append_completion_name(TokenId id, std::string& out) const;

  const GenerationRequest& request_;
  const Tokenizer& tokenizer_;
};

}  // namespace millrace
