// Text out of a stream of token ids. Not thread-safe; owned and called by whoever streams one
// answer. The pieces, concatenated, are Tokenizer::decode() of all ids.
#pragma once

#include <string>
#include <string_view>

#include "base/id.h"
#include "text/decoder.h"
#include "text/tokenizer.h"

namespace millrace {

class IncrementalDetokenizer {
 public:
  // `tokenizer` outlives the detokenizer.
  IncrementalDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
      : tokenizer_(tokenizer),
        skip_special_tokens_(skip_special_tokens),
        stream_(tokenizer.decoder()) {}

  // The text that `id` completes, valid UTF-8; often empty: a character may take several tokens.
  // Constant time a token, amortised; mostly one look into a table. Valid until the next call.
  // REQUIRES: finish() has not been called.
  std::string_view push(TokenId id) {
    if (is_settled_) {
      if (const auto text = tokenizer_.texts().find(id, skip_special_tokens_)) return *text;
    }
    const auto token = tokenizer_.decoded_token(id, skip_special_tokens_);
    if (token) stream_.push(*token);
    return take();
  }

  // What was held back, incomplete characters as U+FFFD. Valid as long as the detokenizer.
  std::string_view finish() {
    stream_.finish();
    return take();
  }

  // How many characters stand between the text given so far and the next token's own; an incomplete
  // one is none, so that a token within a character stands where that does.
  size_t num_characters_held() { return stream_.num_characters_held(); }

 private:
  std::string_view take() {
    taken_ = stream_.take();
    is_settled_ = stream_.is_settled();
    return taken_;
  }

  const Tokenizer& tokenizer_;
  bool skip_special_tokens_;
  DecodeStream stream_;
  bool is_settled_ = false;
  std::string taken_;
};

}  // namespace millrace
