// The answers of OpenAI's /v1/chat/completions, with vLLM's additions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/protocol/answer_parts.h"
#include "server/protocol/logprob_json.h"

namespace millrace {

// A stream is one chunk for each choice that names the role, then the content, then one chunk for
// each choice with an empty delta and the finish_reason.
class ChatWriter : public AnswerWriter {
 public:
  ChatWriter(const GenerationRequest& request, const Tokenizer& tokenizer, AnswerIdentity identity);

  void begin(std::span<const PromptResult> prompts, std::string& out) override;
  void delta(const ChoiceDelta& delta, const Usage& usage, std::string& out) override;
  void prefetch() const override;
  void end(const Usage& usage, std::string& out) override;
  std::string whole(const GenerationResult& result) override;

 private:
  void append_content_chunk(const ChoiceDelta& delta, const Usage& usage, std::string& out) const;
  void append_last_chunk(const ChoiceDelta& delta, const Usage& usage, std::string& out) const;
  void append_logprobs(std::span<const SampledToken> tokens, std::string& out) const;
  void append_choice(int32_t index, const ChoiceResult& choice, std::string& out) const;

  const GenerationRequest& request_;
  AnswerEnvelope envelope_;
  LogprobWording logprobs_;
  bool tells_tokens_;                     // beside their text
  std::optional<std::string> plain_end_;  // of a chunk behind its content, where it is constant
};

}  // namespace millrace
