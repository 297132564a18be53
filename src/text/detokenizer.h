// Text out of a stream of token ids. Not thread-safe; owned and called by whoever streams one
// answer. The pieces, concatenated, are Tokenizer::decode() of all ids.
#pragma once

#include <string>

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
  // Constant time a token, amortised. REQUIRES: finish() has not been called.
  std::string push(TokenId id) {
    const auto token = tokenizer_.decoded_token(id, skip_special_tokens_);
    if (token) stream_.push(*token);
    return stream_.take();
  }

  // What was held back, incomplete characters as U+FFFD.
  std::string finish() {
    stream_.finish();
    return stream_.take();
  }

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_tokens_;
  DecodeStream stream_;
};

}  // namespace millrace
