// Byte pair encoding: a word becomes the tokens that the merges, best rank first and leftmost
// first among equals, make of its characters. Equal, token for token, to the BPE model of Hugging
// Face `tokenizers` (models/bpe). Immutable; callable from any thread.
// Source: Sennrich, Haddow, Birch 2016, section 3.2.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/string_id_map.h"

namespace millrace {

// Ids above this are refused: tables are indexed by id, and no published vocabulary comes near.
inline constexpr TokenId kTokenIdMax = (1 << 24) - 1;

struct BpeMerge {
  std::string_view left;
  std::string_view right;
  uint32_t rank = 0;  // smaller merges first; equal ranks are merged from left to right
};

struct BpeToken {
  std::string_view text;
  TokenId id = 0;
};

struct BpeConfig {
  std::vector<BpeToken> tokens;
  std::vector<BpeMerge> merges;  // where a pair stands twice, the later one counts
  std::optional<std::string> unknown_token;
  std::string continuing_prefix;  // written before every character of a word but the first
  std::string end_of_word_suffix;
  bool fuses_unknown = false;
  bool has_byte_fallback = false;  // "<0x0A>" stands for a byte whose character is unknown
  bool ignores_merges = false;     // a word that is in the vocabulary is its own token
  bool reads_bytes = false;        // words are raw bytes, the vocabulary is in the byte alphabet
};

// Reusable memory of one call.
struct BpeScratch {
  struct Symbol {
    TokenId id = 0;
    int32_t previous = 0;
    int32_t next = 0;
  };
  struct Candidate {
    uint32_t rank = 0;
    int32_t position = 0;
    TokenId merged = 0;
  };
  std::vector<TokenId> ids;
  std::vector<uint32_t> ranks;
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  std::string mapped;
};

class Bpe {
 public:
  Bpe() = default;  // an empty vocabulary: no word has tokens

  // Refuses negative, too large and duplicate ids, merges of or into words that are not in the
  // vocabulary, and an unknown token that is not in it. The strings of `config` are copied.
  static Result<Bpe> create(const BpeConfig& config);

  // Appends the tokens of one word. False: they are more than `num_tokens_max` for certain, by the
  // number of its characters, so that it was not merged. REQUIRES: `word` is UTF-8 (any bytes,
  // where it reads bytes) of less than 2^31 bytes.
  bool encode_word(
      std::string_view word,
      BpeScratch& scratch,
      std::vector<TokenId>& out,
      size_t num_tokens_max = std::numeric_limits<size_t>::max()
  ) const;

  std::optional<TokenId> find(std::string_view text) const { return vocabulary_.find(text); }

  // The vocabulary string of `id`; nullopt where no token has it.
  std::optional<std::string_view> text(TokenId id) const;

  size_t num_tokens() const { return vocabulary_.size(); }
  // One past the largest id.
  size_t id_end() const { return texts_.size(); }

 private:
  struct Merge {
    uint32_t rank = 0;
    TokenId merged = 0;
  };
  struct PairSlot {
    uint64_t pair = kNoPair;
    Merge merge;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};
  static constexpr TokenId kNoSymbol = -1;
  static constexpr uint32_t kNoRank = ~uint32_t{0};

  Result<void> add_tokens(const BpeConfig& config);
  Result<void> add_merges(const BpeConfig& config);
  Result<void> resolve_unknown(const BpeConfig& config);
  void index_symbols();
  void index_words();

  const Merge* find_merge(TokenId left, TokenId right) const;
  void insert_pair(uint64_t pair, Merge merge);

  bool collect_byte_symbols(std::string_view word, std::vector<TokenId>& ids) const;
  void collect_character_symbols(std::string_view word, std::vector<TokenId>& ids) const;
  bool append_fallback_bytes(std::string_view character, std::vector<TokenId>& ids) const;
  void merge(BpeScratch& scratch) const;
  void merge_short(BpeScratch& scratch) const;
  void merge_long(BpeScratch& scratch) const;
  void push_candidate(BpeScratch& scratch, int32_t left, int32_t right) const;

  StringIdMap vocabulary_;
  StringIdMap words_;  // words, as encode_word gets them, that are known to be one token
  std::vector<std::optional<std::string>> texts_;  // by id
  std::vector<PairSlot> pairs_;                    // a power of two, at most half full
  std::array<TokenId, 256> byte_symbols_{};      // of each byte in the byte alphabet, or kNoSymbol
  std::array<TokenId, 256> fallback_symbols_{};  // of "<0x00>".."<0xFF>", or kNoSymbol
  std::optional<TokenId> unknown_;
  std::string continuing_prefix_;
  std::string end_of_word_suffix_;
  bool fuses_unknown_ = false;
  bool has_byte_fallback_ = false;
  bool ignores_merges_ = false;
  bool reads_bytes_ = false;
  size_t num_token_symbols_max_ = 1;  // no token is made of more
};

}  // namespace millrace
