// The text of one choice as it grows: tokens in, text that may be shown out. Stop strings are found
// here, because the engine knows no text. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/id.h"
#include "engine/engine_event.h"
#include "server/generation_fields.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"

namespace millrace {

// Null where a request has none.
std::shared_ptr<const StopStrings> stop_strings_of(const GenerationFields& fields);

class ChoiceText {
 public:
  // `tokenizer` is borrowed. With `fields.echo` the text begins with that of `prompt`; with
  // `fields.continues_prompt` it is what comes after that, its first space too. `stops`: what
  // stop_strings_of() says of the fields, shared with the other choices of a request.
  ChoiceText(
      const Tokenizer& tokenizer,
      const GenerationFields& fields,
      std::span<const TokenId> prompt,
      std::shared_ptr<const StopStrings> stops
  );

  // Takes the next output token; returns the text that is now certain: whole characters, and
  // nothing that could still turn out to begin a stop string. After a stop string nothing comes.
  // A stop string counts if it ends in text of a token after the first min_tokens, wherever it
  // begins (as in vLLM). Valid until the next call.
  std::string_view push(TokenId id);
  // The same of an event: the token that stopped a choice is part of the text only where stop
  // strings are (include_stop_str_in_output).
  std::string_view push(const TokenEvent& event);

  // Where the next token will stand in the choice's text (with the prompt's, where it is echoed),
  // in characters; a token that begins within a character stands where that does. Counted before
  // stop strings are cut off. REQUIRES: logprobs were asked for, finish() has not been called.
  int64_t text_offset() {
    return num_characters_ + static_cast<int64_t>(detokenizer_.num_characters_held());
  }

  struct Echo {
    std::string text;
    std::vector<int64_t> text_offsets;  // of the prompt's tokens; empty: no logprobs asked for
  };

  // The prompt's text, to be shown before all else; empty without echo. Called once, first.
  Echo take_echo() { return std::exchange(echo_, {}); }

  // The rest, once the choice is over; valid as long as this object. Called once, last.
  std::string_view finish();

  // A stop string was found: the choice is over, whatever tokens follow.
  bool has_stopped() const { return matcher_ && matcher_->matched(); }
  // Which one it was.
  std::optional<std::string> stop_string() const;

 private:
  std::string_view detokenize(TokenId id);
  std::string_view release(std::string_view text);

  IncrementalDetokenizer detokenizer_;
  bool counts_characters_;
  int64_t num_characters_ = 0;                // that the detokenizer gave
  std::optional<StopStringMatcher> matcher_;  // none: no stop strings
  std::string released_;                      // by the matcher, in the last call
  Echo echo_;
  bool includes_stop_;
  int32_t num_tokens_before_stop_;
  int32_t num_tokens_ = 0;
};

}  // namespace millrace
