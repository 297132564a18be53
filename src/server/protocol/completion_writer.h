// The answers of OpenAI's /v1/completions, with vLLM's additions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/protocol/answer_parts.h"
#include "server/protocol/logprob_json.h"

namespace millrace {

// A stream is chunks with text; the last one of each choice has the finish_reason too.
class CompletionWriter : public AnswerWriter {
 public:
  CompletionWriter(
      const GenerationRequest& request, const Tokenizer& tokenizer, AnswerIdentity identity
  );

  void begin(std::span<const PromptResult> prompts, std::string& out) override;
  void delta(const ChoiceDelta& delta, const Usage& usage, std::string& out) override;
  void prefetch() const override;
  void end(const Usage& usage, std::string& out) override;
  std::string whole(const GenerationResult& result) override;

 private:
  // The tokens of one choice that are told at once.
  struct NewTokens {
    std::span<const SampledToken> tokens;
    std::span<const int64_t> text_offsets;  // [num_tokens], where logprobs were asked for
  };

  bool echoes_logprobs() const;
  const PromptResult* prompt_of(int32_t choice) const;
  // REQUIRES: the chunks tell their tokens.
  void append_tokens(const ChoiceDelta& delta, std::string& out);
  // With the prompt's in front, where `prompt` is given.
  void append_logprobs(const PromptResult* prompt, NewTokens news, std::string& out) const;
  void append_choice(
      int32_t index, const PromptResult& prompt, const ChoiceResult& choice, std::string& out
  ) const;

  const GenerationRequest& request_;
  AnswerEnvelope envelope_;
  LogprobWording logprobs_;
  bool tells_tokens_;                     // beside their text
  std::optional<std::string> plain_end_;  // of a chunk behind its text, where it is constant
  std::vector<PromptResult> prompts_;     // of a stream; only if its chunks tell of them
  std::vector<bool> is_begun_;            // [num_choices] of a stream that tells its tokens
};

}  // namespace millrace
