// Writes prompts of an exact number of tokens. What it makes is a pure function of the codec and
// the arguments. Immutable; callable from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "workload/planned_request.h"
#include "workload/token_codec.h"
#include "workload/word_pool.h"

namespace millrace::bench {

// Some tokens at random. The same key gives the same ones; each key its own from the first on:
// they begin with a spelling of it.
struct RandomRun {
  uint64_t key = 0;
  int64_t num_tokens = 0;
};

struct CountedText {
  std::string text;
  int64_t num_tokens = 0;  // as the codec encodes it, without what the server adds
};

// The longest prompt that is made.
inline constexpr int64_t kPromptTokensMax = int64_t{1} << 24;

// A key for each of `index`; none twice for one `key`.
uint64_t key_of(uint64_t key, uint64_t index);

class PromptWriter {
 public:
  // Asks the codec for its words. `codec` must not be null.
  static Result<std::shared_ptr<const PromptWriter>> make(std::shared_ptr<const TokenCodec> codec);

  const TokenCodec& codec() const { return *codec_; }
  const WordPool& words() const { return words_; }
  // Ids that may be drawn, ascending.
  const std::vector<TokenId>& allowed_ids() const { return allowed_ids_; }

  // The runs one behind the other, of as many tokens as they say together; the count is the true
  // one where no text of that many is found. A text of two runs begins with the tokens of a text
  // of the first alone. With `is_continued`, it begins with a space, for what stands before it.
  // REQUIRES: each num_tokens >= 0, kPromptTokensMax together
  Result<CountedText> write(std::span<const RandomRun> runs, bool is_continued = false) const;

  // A text of about these tokens that has exactly `num_tokens`: it is cut or goes on with random
  // ones of `key`. The count is the true one where none is found.
  Result<CountedText> fit(std::vector<TokenId> ids, int64_t num_tokens, uint64_t key) const;

  // How many tokens of a run tell it from those of all other keys.
  int64_t num_telling_tokens() const;

  // As a request's prompt: the text, its count with what the server adds; or its ids.
  Result<PlannedRequest> plan(CountedText text, bool sends_token_ids) const;

  // How many tokens a text of `num_tokens` as the server counts has by itself.
  int64_t without_added(int64_t num_tokens, bool sends_token_ids) const;

 private:
  explicit PromptWriter(std::shared_ptr<const TokenCodec> codec) : codec_(std::move(codec)) {}

  size_t word_at(const RandomRun& run, int64_t place) const;
  void append_words(const RandomRun& run, int64_t begin, std::string& text) const;
  std::string text_of(std::span<const RandomRun> runs, int64_t num_words, bool is_continued) const;
  std::vector<TokenId> ids_of(std::span<const RandomRun> runs) const;
  Result<int64_t> count(std::string_view text) const;
  // Words, or ids where there are none, behind what is there until it has `num_tokens`; it has
  // fewer.
  Result<CountedText> fill(std::string text, int64_t num_tokens, uint64_t key) const;
  Result<void> find_fill_ids();

  std::shared_ptr<const TokenCodec> codec_;
  WordPool words_;
  std::vector<TokenId> allowed_ids_;
  std::vector<TokenId> fill_ids_;  // where there are no words: ids that are a text of their own
};

}  // namespace millrace::bench
