#include "workload/word_pool.h"

#include <algorithm>
#include <array>
#include <span>
#include <unordered_set>
#include <utility>

#include "base/check.h"

namespace millrace::bench {
namespace {

// Fewer words than this make long spellings and monotonous prompts.
constexpr size_t kWordsMin = 16;
constexpr size_t kWordSizeMax = 15;  // letters; longer ones are rare and mostly not words
// What is asked about at once. A power of two: a group that fails is halved.
constexpr size_t kGroupSize = 64;

constexpr std::array<std::string_view, 192> kCommonWords = {
    "the",     "of",      "and",     "to",      "in",      "is",      "that",   "for",    "it",
    "as",      "was",     "with",    "be",      "by",      "on",      "not",    "he",     "this",
    "are",     "or",      "his",     "from",    "at",      "which",   "but",    "have",   "an",
    "had",     "they",    "you",     "were",    "their",   "one",     "all",    "we",     "can",
    "her",     "has",     "there",   "been",    "if",      "more",    "when",   "will",   "would",
    "who",     "so",      "no",      "out",     "up",      "into",    "only",   "over",   "some",
    "these",   "time",    "may",     "could",   "then",    "do",      "first",  "any",    "my",
    "now",     "such",    "like",    "our",     "than",    "other",   "new",    "what",   "its",
    "about",   "two",     "way",     "very",    "after",   "most",    "made",   "many",   "before",
    "must",    "through", "back",    "years",   "where",   "much",    "your",   "well",   "down",
    "should",  "because", "each",    "just",    "those",   "people",  "how",    "too",    "little",
    "state",   "good",    "make",    "world",   "still",   "own",     "see",    "men",    "work",
    "long",    "get",     "here",    "between", "both",    "life",    "being",  "under",  "never",
    "day",     "same",    "another", "know",    "while",   "last",    "might",  "us",     "great",
    "old",     "year",    "off",     "come",    "since",   "against", "go",     "came",   "right",
    "used",    "take",    "three",   "states",  "himself", "few",     "house",  "use",    "during",
    "without", "again",   "place",   "around",  "however", "home",    "small",  "found",  "thought",
    "went",    "say",     "part",    "once",    "general", "high",    "upon",   "school", "every",
    "does",    "got",     "united",  "left",    "number",  "course",  "war",    "until",  "always",
    "away",    "side",    "fact",    "though",  "water",   "less",    "public", "put",    "think",
    "almost",  "hand",    "enough",  "far",     "took",    "head",    "yet",    "system", "better",
    "set",     "told",    "nothing"};

bool is_word(std::string_view text) {
  return text.size() >= 2 && text.size() <= kWordSizeMax &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
         });
}

// Asks a codec how many tokens words are.
class WordTester {
 public:
  explicit WordTester(const TokenCodec& codec) : codec_(codec) {}

  // Appends those of `words` that are one token each behind a space, in their order.
  Result<void> keep_single(std::span<const std::string> words, std::vector<std::string>& kept) {
    for (size_t begin = 0; begin < words.size(); begin += kGroupSize) {
      const size_t count = std::min(kGroupSize, words.size() - begin);
      Result<void> done = keep_of_group(words.subspan(begin, count), kept);
      if (!done) return done;
    }
    return {};
  }

  // Whether `word` is one token at the start of a text, with the others behind it.
  Result<bool> is_start(std::string_view word, std::string_view next) {
    Result<std::vector<TokenId>> ids = codec_.encode(std::string(word) + std::string(next));
    if (!ids) return ids.error();
    return ids->size() == 2;
  }

 private:
  // A word of two tokens could hide behind two words that merge across their space. Hardly any
  // tokenizer does that, and every prompt is counted again.
  Result<void> keep_of_group(std::span<const std::string> words, std::vector<std::string>& kept) {
    Result<size_t> count = count_behind_anchor(words);
    if (!count) return count.error();
    if (*count == words.size()) {
      kept.insert(kept.end(), words.begin(), words.end());
      return {};
    }
    if (words.size() == 1) return {};
    const size_t half = words.size() / 2;
    if (Result<void> done = keep_of_group(words.first(half), kept); !done) return done;
    return keep_of_group(words.subspan(half), kept);
  }

  Result<size_t> count_behind_anchor(std::span<const std::string> words) {
    // Some tokenizers put a space of their own before a text: the anchor takes it.
    if (anchor_size_ == 0) {
      Result<std::vector<TokenId>> anchor = codec_.encode("a");
      if (!anchor) return anchor.error();
      anchor_size_ = anchor->size();
    }
    std::string text = "a";
    for (const std::string& word : words) (text += ' ') += word;
    Result<std::vector<TokenId>> ids = codec_.encode(text);
    if (!ids) return ids.error();
    return ids->size() - std::min(anchor_size_, ids->size());
  }

  const TokenCodec& codec_;
  size_t anchor_size_ = 0;
};

// The vocabulary's words in the order of their ids. `is_spaced`: those that bring their own space.
Result<std::vector<std::string>> words_of_vocabulary(const TokenCodec& codec, bool is_spaced) {
  std::vector<std::string> words;
  std::unordered_set<std::string> seen;
  for (size_t i = 0; i < codec.vocab_size(); ++i) {
    const TokenId id = static_cast<TokenId>(i);
    if (codec.is_reserved(id)) continue;
    Result<std::string> text = codec.decode({&id, 1});
    if (!text) return text.error();
    if (text->starts_with(' ') != is_spaced) continue;
    std::string word = is_spaced ? text->substr(1) : *std::move(text);
    if (is_word(word) && seen.insert(word).second) words.push_back(std::move(word));
  }
  return words;
}

Result<std::vector<std::string>> stable_words(const TokenCodec& codec) {
  WordTester tester(codec);
  std::vector<std::string> kept;
  if (!codec.is_local()) {
    std::vector<std::string> common(kCommonWords.begin(), kCommonWords.end());
    std::sort(common.begin(), common.end());
    common.erase(std::unique(common.begin(), common.end()), common.end());
    if (Result<void> done = tester.keep_single(common, kept); !done) return done.error();
    return kept;
  }
  // Decoders of SentencePiece vocabularies take a text's first space away.
  for (const bool is_spaced : {true, false}) {
    if (kept.size() >= kWordsMin) break;
    Result<std::vector<std::string>> words = words_of_vocabulary(codec, is_spaced);
    if (!words) return words.error();
    kept.clear();
    if (Result<void> done = tester.keep_single(*words, kept); !done) return done.error();
  }
  return kept;
}

Result<std::vector<std::string>> start_words(
    const TokenCodec& codec, const std::vector<std::string>& words
) {
  const size_t num_tries = codec.is_local() ? words.size() : std::min<size_t>(words.size(), 8);
  WordTester tester(codec);
  std::vector<std::string> starts;
  for (size_t i = 0; i < num_tries; ++i) {
    Result<bool> is_start = tester.is_start(words[i], " " + words[(i + 1) % words.size()]);
    if (!is_start) return is_start.error();
    if (*is_start) starts.push_back(words[i]);
  }
  return starts;
}

}  // namespace

Result<WordPool> WordPool::build(const TokenCodec& codec) {
  WordPool pool;
  Result<std::vector<std::string>> words = stable_words(codec);
  if (!words) return words.error();
  if (words->size() < kWordsMin) return pool;
  Result<std::vector<std::string>> starts = start_words(codec, *words);
  if (!starts) return starts.error();
  for (const std::string& word : *words) pool.words_.push_back(" " + word);
  pool.starts_ = starts->empty() ? pool.words_ : *std::move(starts);
  for (uint64_t left = ~uint64_t{0}; left > 0; left /= pool.size()) ++pool.num_digits_;
  return pool;
}

size_t WordPool::digit(uint64_t number, size_t place) const {
  CHECK(!is_empty(), "a digit without words");
  for (; place > 0; --place) number /= size();
  return number % size();
}

}  // namespace millrace::bench
