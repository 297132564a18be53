// Words that are one token each, so that a text of n of them has n tokens, whatever their order.
// Immutable; callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "workload/token_codec.h"

namespace millrace::bench {

class WordPool {
 public:
  // Words of letters from the codec's vocabulary where that is here to be looked through, else
  // common English ones: a server is asked some tens of times. Empty where there are too few.
  static Result<WordPool> build(const TokenCodec& codec);

  bool is_empty() const { return words_.empty(); }
  size_t size() const { return words_.size(); }
  // " word", one token behind any other.
  std::string_view word(size_t index) const { return words_[index]; }
  // "word", one token at the start of a text; it is one with a space before it, too. There is at
  // least one unless the pool is empty; where no word can start a text without its space, the
  // words are what starts it.
  size_t num_starts() const { return starts_.size(); }
  std::string_view start(size_t index) const { return starts_[index]; }

  // How many words it takes so that each 64-bit number has a spelling of its own.
  size_t num_digits() const { return num_digits_; }
  // Digit `place` (from 0) of a number's spelling, as an index of a word.
  size_t digit(uint64_t number, size_t place) const;

 private:
  std::vector<std::string> words_, starts_;
  size_t num_digits_ = 0;
};

}  // namespace millrace::bench
