// The second stage of a tokenizer: cuts a normalized text into the words that the model merges
// within. The steps of Hugging Face `tokenizers` (pre_tokenizers/*.rs) under their names there.
// Immutable; callable from any thread.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/byte_range.h"
#include "text/text_pattern.h"

namespace millrace {

// What becomes of the matches of a pattern that cuts a text.
enum class SplitBehavior {
  kRemoved,             // they disappear
  kIsolated,            // each is a word of its own
  kMergedWithPrevious,  // each belongs to the word before it
  kMergedWithNext,      // each belongs to the word behind it
  kContiguous,          // as kIsolated, but neighbours stay together
};

struct SplitStep {
  TextPattern pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // what lies between the matches counts as the match
};
struct ByteLevelStep {
  bool add_prefix_space = true;
  bool use_regex = true;  // cut by the pattern of GPT-2
};
struct MetaspaceStep {
  enum class PrependScheme { kAlways, kFirst, kNever };
  std::string replacement;  // one character, in UTF-8
  PrependScheme prepend_scheme = PrependScheme::kAlways;
  bool split = true;
};
// Cuts at characters of a class: Digits, Punctuation, WhitespaceSplit.
struct ClassSplitStep {
  uint8_t classes = 0;  // CodePointClass bits
  SplitBehavior behavior = SplitBehavior::kIsolated;
};
struct WhitespaceStep {};  // \w+|[^\w\s]+

using PreTokenizerStep =
    std::variant<SplitStep, ByteLevelStep, MetaspaceStep, ClassSplitStep, WhitespaceStep>;

// The words of one text. Not copied: `text` may point into `storage`.
struct Words {
  Words() = default;
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  std::string_view text;          // what the ranges count in: the input, or `storage`
  std::string storage;            // the text as the steps rewrote it
  std::vector<ByteRange> ranges;  // ascending, none empty
  bool is_front = true;           // whether the first word begins the source
};

class PreTokenizer {
 public:
  PreTokenizer() = default;  // the whole text is one word
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps);

  // Whether the words are bytes still to be written in the byte alphabet. That is so where the last
  // step is ByteLevel: the model reads bytes directly, which spares writing and reading characters.
  bool leaves_bytes() const { return leaves_bytes_; }
  // From now on the words are written in the byte alphabet, for a model that cannot read bytes.
  void write_byte_characters() { leaves_bytes_ = false; }

  // Cuts `text`, which stays where it is while `words` is in use. `is_front`: whether it begins the
  // source, which Metaspace asks. REQUIRES: `text` is valid UTF-8 and not empty.
  void split(std::string_view text, bool is_front, Words& words) const;

 private:
  std::vector<PreTokenizerStep> steps_;
  bool leaves_bytes_ = false;
};

}  // namespace millrace
