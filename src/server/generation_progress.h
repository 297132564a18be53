// What one call has generated so far: events of the engine in, what is new of its choices out.
// Knows no connection and no metrics, so that a server and a batch of files turn the same events
// into the same answers. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/prefetch.h"
#include "base/result.h"
#include "engine/engine.h"
#include "server/choice_text.h"
#include "server/protocol/generation_request.h"
#include "server/protocol/generation_result.h"

namespace millrace {

class GenerationProgress {
 public:
  // What is new of one choice. Borrows: valid until the next call, and while the event lives.
  struct News {
    int32_t choice = 0;  // prompt * n + choice of that prompt
    std::string_view text;
    SampledToken* token = nullptr;  // the event's; none at the end of a choice
    std::optional<int64_t>
        text_offset;               // the token's (ChoiceResult), where logprobs were asked for
    std::optional<Ending> ending;  // the choice is over
    // A stop string was found: the engine is to be told that the choice is over. Its ending comes
    // when the engine says so too, with what it knows: times, and what the prefix cache saved.
    bool is_stopped_by_text = false;
  };

  // `tokenizer` and `request` are borrowed. `prompts`: the request's, as the engine is asked.
  GenerationProgress(
      const Tokenizer& tokenizer,
      const GenerationRequest& request,
      std::span<const EngineRequest> prompts
  );

  // `prompt`: the place of the event's prompt among those of the request. none: nothing that
  // anybody is to be told.
  std::optional<News> take_token(size_t prompt, TokenEvent& event);
  void take_prompt_logprobs(size_t prompt, PromptLogprobsEvent& event);

  // The error: why the whole call fails. `is_aborted`: at the client's own wish, so that a
  // cancelled choice ends well, with finish reason "abort". Once for each choice.
  Result<News> take_end(size_t prompt, const FinishedEvent& event, bool is_aborted);

  // Adds the news to the whole answer. For calls that do not stream.
  void keep(const News& news);

  // The prompt's text, to be shown before the first of a choice's own: for calls that stream. Empty
  // without echo, and from the second call on.
  std::string take_echo(int32_t choice);

  // Whether the logprobs of some prompt are not all there yet. REQUIRES: they were asked for.
  bool lacks_prompt_logprobs() const;

  int32_t index_of(size_t prompt, int32_t choice) const;
  bool is_over() const { return num_choices_open_ == 0; }
  const Usage& usage() const { return usage_; }
  const SequenceTimings& timings(int32_t choice) const;
  std::span<const PromptResult> prompts() const { return prompts_; }

  // Asks memory for what take_token() will read, of the first choice.
  void prefetch() const {
    millrace::prefetch(
        choices_.data(), sizeof(Choice) - sizeof(ChoiceResult) + sizeof(std::string)
    );
  }

  // Nobody will ask for the prompts any more: they may be large.
  void drop_prompts() { prompts_.clear(); }

  // The whole answer. Called once, when all choices are over.
  GenerationResult take_result();

 private:
  struct Choice {
    explicit Choice(ChoiceText choice_text) : text(std::move(choice_text)) {}
    ChoiceText text;
    bool is_cache_counted = false;  // the usage has what was cached; of a prompt's first choice
    ChoiceResult result;            // the echo, the timings, and what was kept
  };

  void count_cached(size_t prompt, int32_t choice, int32_t num_cached_tokens);
  Result<Ending> ending_of(const ChoiceText& text, const FinishedEvent& event, bool is_aborted)
      const;
  bool is_stop_token_of_request(std::optional<TokenId> id) const;

  const GenerationRequest& request_;
  std::vector<PromptResult> prompts_;
  std::vector<Choice> choices_;  // [num_choices]
  Usage usage_;
  int32_t num_choices_open_ = 0;
};

}  // namespace millrace
