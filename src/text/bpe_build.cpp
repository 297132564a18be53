// Building a BPE model from what a file states, and refusing what cannot be one.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/rng.h"
#include "text/bpe.h"
#include "text/byte_alphabet.h"
#include "text/unicode.h"

namespace millrace {
namespace {

// Longer tokens are rare in text, and finding out whether one is its own encoding costs a merge of
// all its bytes at load time.
constexpr size_t kIndexedWordMax = 32;

std::string quoted(std::string_view text) {
  constexpr size_t kShownMax = 60;
  std::string shown;
  append_utf8_lossy(text.substr(0, kShownMax), true, shown);
  return fmt::format("\"{}\"{}", shown, text.size() > kShownMax ? "..." : "");
}

}  // namespace

Result<Bpe> Bpe::create(const BpeConfig& config) {
  Bpe bpe;
  bpe.continuing_prefix_ = config.continuing_prefix;
  bpe.end_of_word_suffix_ = config.end_of_word_suffix;
  bpe.fuses_unknown_ = config.fuses_unknown;
  bpe.has_byte_fallback_ = config.has_byte_fallback;
  bpe.ignores_merges_ = config.ignores_merges;
  // With decorations a symbol is more than its byte, so the word is written out instead.
  CHECK(
      !config.reads_bytes ||
          (config.continuing_prefix.empty() && config.end_of_word_suffix.empty()),
      "byte words with decorated characters"
  );
  bpe.reads_bytes_ = config.reads_bytes;
  for (const auto step : {&Bpe::add_tokens, &Bpe::add_merges, &Bpe::resolve_unknown}) {
    Result<void> done = (bpe.*step)(config);
    if (!done) return done.error();
  }
  bpe.index_symbols();
  bpe.index_words();
  return bpe;
}

Result<void> Bpe::add_tokens(const BpeConfig& config) {
  TokenId id_max = -1;
  for (const BpeToken& token : config.tokens) {
    if (token.id < 0 || token.id > kTokenIdMax) {
      return invalid_argument(fmt::format(
          "token {} has the id {}, expected 0 to {}", quoted(token.text), token.id, kTokenIdMax
      ));
    }
    id_max = std::max(id_max, token.id);
  }
  vocabulary_.reserve(config.tokens.size());
  texts_.resize(static_cast<size_t>(id_max + 1));
  for (const BpeToken& token : config.tokens) {
    std::optional<std::string>& text = texts_[static_cast<size_t>(token.id)];
    if (text) {
      return invalid_argument(fmt::format(
          "tokens {} and {} have the same id {}", quoted(*text), quoted(token.text), token.id
      ));
    }
    text = std::string(token.text);
    num_token_symbols_max_ = std::max(num_token_symbols_max_, text->size());
    if (!vocabulary_.insert(token.text, token.id)) {
      return invalid_argument(fmt::format("token {} stands twice", quoted(token.text)));
    }
  }
  return {};
}

Result<void> Bpe::add_merges(const BpeConfig& config) {
  if (config.merges.empty()) return {};
  pairs_.resize(std::bit_ceil(config.merges.size() * 2));
  std::string merged;
  for (const BpeMerge& merge : config.merges) {
    const std::optional<TokenId> left = vocabulary_.find(merge.left);
    const std::optional<TokenId> right = vocabulary_.find(merge.right);
    if (!left || !right) {
      return invalid_argument(fmt::format(
          "merge {} takes {}, which is not in the vocabulary",
          merge.rank,
          quoted(left ? merge.right : merge.left)
      ));
    }
    if (merge.right.size() < continuing_prefix_.size()) {
      return invalid_argument(fmt::format(
          "merge {} takes {}, which is shorter than the continuing_subword_prefix",
          merge.rank,
          quoted(merge.right)
      ));
    }
    merged.assign(merge.left);
    merged.append(merge.right.substr(continuing_prefix_.size()));
    const std::optional<TokenId> result = vocabulary_.find(merged);
    if (!result) {
      return invalid_argument(fmt::format(
          "merge {} makes {}, which is not in the vocabulary", merge.rank, quoted(merged)
      ));
    }
    // An empty half would merge without getting anywhere.
    if (*result == *left || *result == *right) {
      return invalid_argument(fmt::format("merge {} makes one of its own halves", merge.rank));
    }
    const auto pair = static_cast<uint64_t>(*left) << 32 | static_cast<uint64_t>(*right);
    insert_pair(pair, {merge.rank, *result});
  }
  return {};
}

void Bpe::insert_pair(uint64_t pair, Merge merge) {
  const size_t mask = pairs_.size() - 1;
  size_t i = mix64(pair) & mask;
  while (pairs_[i].pair != pair && pairs_[i].pair != kNoPair) i = (i + 1) & mask;
  pairs_[i] = {pair, merge};
}

Result<void> Bpe::resolve_unknown(const BpeConfig& config) {
  if (!config.unknown_token) return {};
  unknown_ = vocabulary_.find(*config.unknown_token);
  if (unknown_) return {};
  return invalid_argument(
      fmt::format("the unknown token {} is not in the vocabulary", quoted(*config.unknown_token))
  );
}

void Bpe::index_symbols() {
  for (size_t byte = 0; byte < byte_symbols_.size(); ++byte) {
    std::string character;
    append_utf8(byte_to_character(static_cast<uint8_t>(byte)), character);
    byte_symbols_[byte] = vocabulary_.find(character).value_or(kNoSymbol);
    fallback_symbols_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte)).value_or(kNoSymbol);
  }
}

// Most words of a text are single tokens. Whether a token is what its own text encodes to does not
// depend on the text around it, so it is found out once, and such words need no merging.
void Bpe::index_words() {
  words_.reserve(texts_.size());
  BpeScratch scratch;
  std::vector<TokenId> encoded;
  std::vector<std::pair<std::string, TokenId>> found;
  for (size_t i = 0; i < texts_.size(); ++i) {
    if (!texts_[i] || texts_[i]->empty()) continue;
    std::optional<std::string> word = texts_[i];
    if (reads_bytes_) word = bytes_of_characters(*texts_[i]);
    if (!word) continue;
    const auto id = static_cast<TokenId>(i);
    if (ignores_merges_) {
      found.emplace_back(*std::move(word), id);
      continue;
    }
    if (word->size() > kIndexedWordMax) continue;
    encoded.clear();
    encode_word(*word, scratch, encoded);
    if (encoded.size() == 1 && encoded[0] == id) found.emplace_back(*std::move(word), id);
  }
  for (const auto& [word, id] : found) words_.insert(word, id);
}

}  // namespace millrace
