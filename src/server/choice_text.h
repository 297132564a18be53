// The text of one choice as it grows: tokens in, text that may be shown out. Stop strings are found
// here, because the engine knows no text. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/id.h"
#include "server/generation_fields.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"

namespace millrace {

class ChoiceText {
 public:
  // `tokenizer` is borrowed. With `fields.echo` the text begins with that of `prompt`.
  ChoiceText(
      const Tokenizer& tokenizer, const GenerationFields& fields, std::span<const TokenId> prompt
  );

  // Takes the next output token; returns the text that is now certain: whole characters, and
  // nothing that could still turn out to begin a stop string. After a stop string nothing comes.
  // Stop strings count only in what comes after the first min_tokens tokens.
  std::string push(TokenId id);

  // The prompt's text, to be shown before all else; empty without echo. Called once, first.
  std::string take_echo() { return std::exchange(echo_, {}); }

  // The rest, once the choice is over. Called once, last.
  std::string finish();

  // The stop string that was found, if any: the choice is over then, whatever tokens follow.
  std::optional<std::string> stop_string() const;

 private:
  IncrementalDetokenizer detokenizer_;
  std::vector<std::string> stops_;
  std::optional<StopStringMatcher> matcher_;  // none: no stop strings
  std::string echo_;
  int32_t num_tokens_before_stop_;
  int32_t num_tokens_ = 0;
};

}  // namespace millrace
