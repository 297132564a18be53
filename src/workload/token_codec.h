// Text to tokens and back as the measured server does it, so that prompts have the length that was
// asked for: a tokenizer of our own over the same files, or the server's /tokenize.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace millrace::bench {

// Thread-safe.
class TokenCodec {
 public:
  virtual ~TokenCodec() = default;
  // Without the tokens that a post-processor adds.
  virtual Result<std::vector<TokenId>> encode(std::string_view text) const = 0;
  virtual Result<std::string> decode(std::span<const TokenId> ids) const = 0;
  virtual size_t vocab_size() const = 0;
  // Never to be drawn at random: special tokens, and ids that are no token.
  virtual bool is_reserved(TokenId id) const = 0;
  // What the server adds before a prompt of text (a begin-of-text token): part of its length.
  virtual size_t num_added_tokens() const = 0;
  // Whether a call costs no round trip to a server, so that one may make many thousands.
  virtual bool is_local() const { return false; }
};

// Over a tokenizer read here. `tokenizer` must not be null.
std::unique_ptr<TokenCodec> make_local_codec(std::shared_ptr<const Tokenizer> tokenizer);

}  // namespace millrace::bench
