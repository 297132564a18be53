// Where the n-grams of a growing list of tokens ended last: for each length from `length_min` to
// `length_max`, a table from n-gram to the end of its latest occurrence. Exact: the hash only says
// where to look, tokens are compared. Holds ends alone, no tokens: 8 to 16 bytes for each length
// and token, and so never more than a constant times the tokens. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cache/token_view.h"
#include "sched/speculation.h"

namespace millrace {

class NgramIndex {
 public:
  struct Options {
    int32_t length_min = 1;
    int32_t length_max = 1;
    // Of the hashes: a secret, so that nobody can send tokens whose n-grams collide. What is found
    // does not depend on it.
    uint64_t hash_key = 0;
    int32_t first_end = 1;  // n-grams that end before it are none of this index's
  };
  // REQUIRES: 1 <= length_min <= length_max <= NgramSpeculation::kLookupMax, first_end >= 1.
  explicit NgramIndex(const Options& options) : options_(options), next_end_(options.first_end) {}

  // Enters the n-grams that end at `end` at the latest (an end is the number of tokens up to and
  // with the last one), `num_ends_max` further ends at most: it bounds what a step spends on a
  // long prompt. Returns whether all of them are entered now. REQUIRES: the tokens entered so far
  // are unchanged.
  bool extend(const TokenView& tokens, int32_t end, int32_t num_ends_max);

  // The end of the latest n-gram that was entered and is equal to the last `length` tokens.
  // REQUIRES: length_min <= length <= length_max, and the hashes are those of all tokens.
  using Hashes = std::array<uint64_t, NgramSpeculation::kLookupMax>;
  std::optional<int32_t> find(const TokenView& tokens, const Hashes& hashes, int32_t length) const;

  // [length - 1]: the hash of the `length` tokens before `end`, for each length that fits there.
  Hashes hashes_before(const TokenView& tokens, int32_t end) const;

 private:
  // Open addressing with linear probing, at most half full. 0: empty; no n-gram ends at 0.
  struct Table {
    std::vector<int32_t> ends;  // [a power of 2, or none]
    size_t num_used = 0;
  };
  struct Ngram {
    uint64_t hash;
    int32_t end;
    int32_t length;
  };

  static size_t slot_of(const Table& table, const TokenView& tokens, const Ngram& ngram);
  void enter(const TokenView& tokens, const Ngram& ngram);
  void grow(Table& table, const TokenView& tokens, int32_t length);
  Table& table_of(int32_t length) { return tables_[static_cast<size_t>(length) - 1]; }

  Options options_;
  int32_t next_end_;
  std::array<Table, NgramSpeculation::kLookupMax> tables_;  // [length - 1]
};

}  // namespace millrace
