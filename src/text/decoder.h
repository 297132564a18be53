// The last stage of a tokenizer: tokens back to text. The steps of Hugging Face `tokenizers`
// (decoders/*.rs) under their names there. A TextDecoder is immutable; a DecodeStream is one
// decoding, owned and called by one thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/text_pattern.h"

namespace millrace {

struct DecodeByteLevel {};     // the byte alphabet back to bytes, all tokens together
struct DecodeByteFallback {};  // "<0x0A>" back to a byte
struct DecodeFuse {};          // all tokens become one
struct DecodeStrip {           // of each token
  std::string content;         // one character, in UTF-8
  size_t num_start = 0;        // at most so many at its start
  size_t num_stop = 0;         // and at its end
};
struct DecodeReplace {
  TextPattern pattern;
  std::string content;
};
struct DecodeMetaspace {
  std::string replacement;  // one character, in UTF-8; becomes a space
  bool drops_first = true;  // but nothing in the first token
};

using DecoderStep = std::variant<
    DecodeByteLevel,
    DecodeByteFallback,
    DecodeFuse,
    DecodeStrip,
    DecodeReplace,
    DecodeMetaspace>;

class TextDecoder {
 public:
  TextDecoder() = default;  // tokens are joined by spaces
  explicit TextDecoder(std::vector<DecoderStep> steps) : steps_(std::move(steps)), joins_(false) {}

  const std::vector<DecoderStep>& steps() const { return steps_; }
  bool joins_with_space() const { return joins_; }

  // The bytes that a token adds in the middle of a text.
  std::string token_bytes(std::string_view token) const;

 private:
  std::vector<DecoderStep> steps_;
  bool joins_ = true;
};

// Decodes token after token. What take() gives, concatenated, is the decoding of all tokens at
// once; each piece is valid UTF-8, and text comes as early as no further token can change it.
// Linear in the tokens. Steps that need the whole text (a regular expression behind a step that
// fuses) give all of it at the end.
class DecodeStream {
 public:
  // `decoder` outlives the stream.
  explicit DecodeStream(const TextDecoder& decoder);
  // One that is_settled(), as if it had decoded some text before.
  static DecodeStream settled(const TextDecoder& decoder);

  // REQUIRES: `token` is valid UTF-8; finish() has not been called.
  void push(std::string_view token);
  // After the last token.
  void finish();
  // What became complete since the last call.
  std::string take() { return std::exchange(output_, {}); }

  // Nothing is held back, and what comes next is decoded as in the middle of a text. All settled
  // streams of a decoder give the same for the same tokens.
  bool is_settled() const;

  // How many characters of the text stand between what take() gave and the next token, as far as
  // the tokens so far tell: an incomplete character is none yet. Each byte that is held is looked
  // at once, however often this is called. REQUIRES: take() has been called since the last push().
  size_t num_characters_held();

 private:
  // Of a text that grows at its end; each byte is looked at once.
  struct CharacterCount {
    size_t num_characters = 0;
    size_t num_bytes = 0;  // of the characters counted
    bool is_utf8 = true;

    void go_on(std::string_view text);
  };

  struct StepState {
    bool is_first = true;  // no token has come yet; only some kinds of step care
    size_t num_stripped = 0;
    std::string held;           // what cannot be passed on yet
    CharacterCount held_count;  // as far as was asked for
  };

  bool cares_for_first(size_t step) const;
  void feed_token(size_t step, std::string_view token);
  void feed_text(size_t step, std::string_view text);
  void finish_step(size_t step);
  void flush_byte_run(size_t step);
  void feed_bytes(size_t step, std::string_view bytes, bool at_end);
  void strip_text(size_t step, const DecodeStrip& strip, std::string_view text);
  void replace_text(size_t step, const DecodeReplace& replace, std::string_view text);

  const TextDecoder* decoder_;
  size_t fuser_ = 0;  // the first step behind which there is only one token; steps().size(): none
  std::vector<StepState> states_;
  bool is_first_token_ = true;
  std::string output_;
};

}  // namespace millrace
