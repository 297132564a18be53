// Text to token ids and back, token for token as Hugging Face `tokenizers` does it, for byte-level
// BPE (GPT-2, Llama 3, Qwen, SmolLM) and BPE with byte fallback (Llama 2 and other SentencePiece
// vocabularies). Immutable; callable from any thread, many at once.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "text/byte_range.h"
#include "text/decoder.h"
#include "text/gguf_vocabulary.h"
#include "text/special_tokens.h"
#include "text/token_texts.h"

namespace millrace {

struct EncodeOptions {
  // Whether the post-processor adds its tokens (the begin-of-text token of Llama 3).
  bool add_special_tokens = true;
  // What users supplied of a rendered chat: byte ranges of the text, ascending and apart. An added
  // token marked special is not recognised where its content overlaps one of them; it is ordinary
  // text there. Added tokens that are not special (`<think>`) are recognised everywhere.
  std::span<const ByteRange> plain_text;
};

class Tokenizer {
 public:
  // Reads a tokenizer.json. Its `truncation` and `padding` are passed over: lengths are the
  // server's business. Refuses, by JSON path and name, what it cannot reproduce exactly.
  // `listed`: added tokens, of which those that it lacks are added (text/special_tokens.h).
  static Result<Tokenizer> from_json(
      std::string_view tokenizer_json, std::span<const ListedToken> listed = {}
  );
  static Result<Tokenizer> from_file(
      const std::string& path, std::span<const ListedToken> listed = {}
  );

  // Reads the vocabulary of a GGUF file: "gpt2" with a known pre-tokenizer, or "llama".
  static Result<Tokenizer> from_gguf_vocabulary(const GgufVocabulary& vocabulary);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // The ids of `text`. Each maximal ill-formed part of `text` counts as U+FFFD. Linear in the text,
  // but for words of thousands of characters, which cost a logarithm more.
  // REQUIRES: `text` is shorter than 1 GiB.
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The same where they are at most `num_tokens_max`. nullopt: there are more. Words after so many
  // tokens, or one that is too long for them, are not tokenized. REQUIRES: as encode().
  std::optional<std::vector<TokenId>> encode_at_most(
      size_t num_tokens_max, std::string_view text, const EncodeOptions& options = {}
  ) const;

  // The text of `ids`, always valid UTF-8. Ids that are no token are passed over.
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const;

  // The bytes that a token adds in the middle of a text: not always UTF-8. Empty for no token.
  std::string token_bytes(TokenId id) const;
  // The token as the vocabulary writes it ("Ġthe", "▁the").
  std::optional<std::string_view> token_text(TokenId id) const;
  std::optional<TokenId> token_id(std::string_view text) const;

  // One past the largest id of the model and the added tokens; ids below it may have gaps.
  size_t vocab_size() const;
  // False for ids that are no token.
  bool is_special(TokenId id) const;

  // For the detokenizer: the texts that most tokens add, how tokens become text, and what decoding
  // writes for `id`; nullopt where it writes nothing.
  const TokenTexts& texts() const;
  const TextDecoder& decoder() const;
  std::optional<std::string_view> decoded_token(TokenId id, bool skip_special_tokens) const;

 private:
  friend class TokenizerAssembler;
  struct State;
  explicit Tokenizer(std::unique_ptr<const State> state);

  std::unique_ptr<const State> state_;
};

}  // namespace millrace
