// The answers of SGLang's native /generate.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/protocol/answer_parts.h"

namespace millrace {

// Each event of a stream carries a choice's whole text, ids and logprobs so far, as SGLang's do;
// what was rendered is kept and grows, so that an event costs a copy. With several choices an event
// says its "index", and the whole answer is a list.
class NativeWriter : public AnswerWriter {
 public:
  NativeWriter(
      const GenerationRequest& request, const Tokenizer& tokenizer, AnswerIdentity identity
  );

  void begin(std::span<const PromptResult> prompts, std::string& out) override;
  void delta(const ChoiceDelta& delta, const Usage& usage, std::string& out) override;
  void end(const Usage& usage, std::string& out) override;
  std::string whole(const GenerationResult& result) override;

 private:
  // One choice so far; the strings are JSON without the quotes or brackets around it.
  struct Progress {
    std::string text;
    std::string ids;
    std::string logprobs;      // [logprob, id, text], ...
    std::string top_logprobs;  // [[logprob, id, text], ...], ...
    int64_t num_tokens = 0;
    std::optional<TokenId> last_token;
  };

  // Of one prompt, for all its choices.
  struct PromptPart {
    int64_t num_tokens = 0;
    std::string logprobs;  // members of meta_info, or empty
  };

  // What meta_info says beside Progress and PromptPart.
  struct Meta {
    const Ending* ending = nullptr;
    const SequenceTimings* timings = nullptr;
    std::optional<int64_t> num_cached_tokens;
  };

  bool is_list() const;
  void append_logprob(TokenId id, std::optional<float> logprob, std::string& out) const;
  void append_top_logprobs(
      std::span<const TokenLogprob> logprobs, int32_t num_top, std::string& out
  ) const;
  PromptPart prompt_part(const PromptResult& prompt) const;
  void advance(Progress& progress, std::string_view text, std::span<const SampledToken> tokens)
      const;
  void append_members(
      const Progress& progress, const PromptPart& prompt, const Meta& meta, std::string& out
  ) const;

  const GenerationRequest& request_;
  const Tokenizer& tokenizer_;
  std::string id_;  // as a JSON string
  std::vector<PromptPart> prompts_;
  std::vector<Progress> progress_;  // [num_choices] of a stream
};

}  // namespace millrace
