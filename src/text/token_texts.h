// What tokens add to a text that is whole so far, looked up instead of decoded. Immutable; callable
// from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "text/decoder.h"

namespace millrace {

class TokenTexts {
 public:
  struct Token {
    std::string_view decoded;   // what goes into a DecodeStream
    bool is_skippable = false;  // writes nothing where special tokens are skipped
  };
  // nullopt for an id that is no token.
  using TokenOf = std::function<std::optional<Token>(TokenId)>;

  TokenTexts() = default;  // knows no token

  // Takes in the tokens below `id_end` that leave a settled DecodeStream settled: what they add
  // depends on nothing that came before. Left out are tokens that may be a part of a character,
  // some at a text's edges, and long ones. Linear in the vocabulary; nothing is taken in where the
  // decoder might make much of little, for files are not trusted.
  TokenTexts(const TextDecoder& decoder, size_t id_end, const TokenOf& token_of);

  // The text that `id` adds behind a settled DecodeStream, which stays settled; nullopt: decode it.
  std::optional<std::string_view> find(TokenId id, bool skip_special_tokens) const {
    if (id < 0 || static_cast<size_t>(id) >= entries_.size()) return std::nullopt;
    const Entry entry = entries_[static_cast<size_t>(id)];
    if (!entry.is_known) return std::nullopt;
    if (entry.is_skippable && skip_special_tokens) return std::string_view();
    return std::string_view(bytes_).substr(entry.begin, entry.size);
  }

 private:
  struct Entry {
    uint32_t begin = 0;  // in bytes_
    uint8_t size = 0;
    bool is_known = false;
    bool is_skippable = false;
  };

  std::string bytes_;
  std::vector<Entry> entries_;  // [id_end], or none
};

}  // namespace millrace
