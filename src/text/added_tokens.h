// Tokens that are recognised in a text as a whole, before the model sees it: control tokens of chat
// formats, tags, whatever was added after training. Behaves as added_vocabulary.rs of Hugging Face
// `tokenizers`. Immutable; callable from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "text/byte_range.h"
#include "text/normalizer.h"

namespace millrace {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool single_word = false;  // not recognised beside a word character
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // takes the white space behind it along
  bool normalized = false;   // recognised in the normalized text, as the normalizer writes it
  bool special = false;      // left out when decoding, and never recognised in plain text
};

// A stretch of a text: an added token, or what lies between two of them.
struct AddedTokenSegment {
  ByteRange range;
  std::optional<TokenId> id;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // Refuses tokens that cannot be told apart: equal content, equal ids, or an equal normalized
  // form. Empty contents are passed over.
  static Result<AddedTokens> create(std::vector<AddedToken> tokens, const Normalizer& normalizer);

  // Cuts `text` at the tokens that are recognised before normalization, or (`normalized`) in the
  // normalized text. Leftmost, then longest. A special token whose content overlaps one of the
  // `plain` ranges (ascending) is not recognised. Covers the text; no segment without id is empty.
  // REQUIRES: valid UTF-8.
  std::vector<AddedTokenSegment> split(
      std::string_view text, std::span<const ByteRange> plain, bool normalized
  ) const;

  // Whether any special token is recognised after normalization, so that the normalizer has to
  // carry along which bytes are plain.
  bool has_normalized_special() const { return has_normalized_special_; }

  std::span<const AddedToken> tokens() const { return tokens_; }
  // What decoding writes for tokens()[i]: the content, or its normalized form.
  std::string_view decoded_text(size_t i) const { return decoded_texts_[i]; }

 private:
  // A trie over the patterns; searched from every byte that begins one.
  class Matcher {
   public:
    Matcher() { first_bytes_.fill(false); }
    // False where the pattern is there already. REQUIRES: `pattern` is not empty.
    bool add(std::string_view pattern, size_t token);
    bool is_empty() const { return nodes_.empty(); }
    bool can_begin(char byte) const { return first_bytes_[static_cast<uint8_t>(byte)]; }

    struct Match {
      size_t token = 0;
      size_t size = 0;
    };
    // The longest pattern at text[pos] that `allows(match)`.
    template <class Allows>
    std::optional<Match> longest(std::string_view text, size_t pos, Allows allows) const;

   private:
    struct Node {
      char byte = 0;
      uint32_t first_child = 0;  // 0: none, since the root is nobody's child
      uint32_t next_sibling = 0;
      std::optional<uint32_t> token;
    };
    uint32_t child(uint32_t node, char byte) const;
    std::vector<Node> nodes_;
    std::array<bool, 256> first_bytes_;
  };

  std::vector<AddedToken> tokens_;
  std::vector<std::string> decoded_texts_;
  Matcher verbatim_;
  Matcher normalized_;
  bool has_normalized_special_ = false;
};

}  // namespace millrace
