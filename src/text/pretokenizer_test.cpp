#include "text/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "text/unicode.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> split_with(KnownPattern pattern, std::string_view text) {
  std::vector<ByteRange> pieces;
  split_by_known_pattern(pattern, text, {0, text.size()}, pieces);
  std::vector<std::string> words;
  for (const ByteRange piece : pieces) {
    words.emplace_back(text.substr(piece.begin, piece.end - piece.begin));
  }
  return words;
}

std::vector<std::string> words_of(const PreTokenizer& pre_tokenizer, std::string_view text) {
  Words words;
  pre_tokenizer.split(text, true, words);
  std::vector<std::string> out;
  for (const ByteRange word : words.ranges) {
    out.emplace_back(words.text.substr(word.begin, word.end - word.begin));
  }
  return out;
}

PreTokenizer pre_tokenizer_of(PreTokenizerStep step) {
  std::vector<PreTokenizerStep> steps;
  steps.push_back(std::move(step));
  return PreTokenizer(std::move(steps));
}

TextPattern regex(std::string_view pattern) {
  Result<TextPattern> made = TextPattern::regex(pattern);
  EXPECT_TRUE(made) << made.error().message;
  return *std::move(made);
}

TEST(KnownPatterns, AreRecognisedByTheirText) {
  for (const auto pattern :
       {KnownPattern::kGpt2, KnownPattern::kLlama3, KnownPattern::kQwen2, KnownPattern::kQwen35}) {
    EXPECT_EQ(find_known_pattern(pattern_text(pattern)), pattern);
  }
  EXPECT_EQ(find_known_pattern("\\s+"), std::nullopt);
}

TEST(KnownPatterns, SplitWordsNumbersAndSymbols) {
  EXPECT_THAT(
      split_with(KnownPattern::kQwen2, "I'LL pay $12.50!!\n\n  ok"),
      ElementsAre("I", "'LL", " pay", " $", "1", "2", ".", "5", "0", "!!\n\n", " ", " ok")
  );
  EXPECT_THAT(
      split_with(KnownPattern::kLlama3, "1234567 \t\n x"),
      ElementsAre("123", "456", "7", " \t\n", " x")
  );
  EXPECT_THAT(
      split_with(KnownPattern::kGpt2, "I'LL it's 123!?  x "),
      ElementsAre("I", "'", "LL", " it", "'s", " 123", "!?", " ", " x", " ")
  );
  EXPECT_THAT(split_with(KnownPattern::kQwen2, "x'\xC5\xBFy"), ElementsAre("x", "'\xC5\xBF", "y"));
  // A mark is a symbol to Qwen 2, and part of the word to Qwen 3.5.
  EXPECT_THAT(split_with(KnownPattern::kQwen2, "x\xCC\x81y"), ElementsAre("x", "\xCC\x81y"));
  EXPECT_THAT(split_with(KnownPattern::kQwen35, "x\xCC\x81y"), ElementsAre("x\xCC\x81y"));
}

// The hand-written matchers against the regular expression engine, over characters on which the two
// engines' Unicode versions agree.
TEST(KnownPatterns, AgreeWithTheRegularExpressionEngine) {
  const std::vector<std::string> alphabet = {
      " ",
      " ",
      " ",
      "\n",
      "\r",
      "\t",
      "a",
      "B",
      "s",
      "S",
      "t",
      "l",
      "L",
      "r",
      "e",
      "v",
      "m",
      "d",
      "'",
      "'",
      "1",
      "2",
      "3",
      ".",
      "!",
      "$",
      "\xC3\xA9",
      "\xC2\xA0",
      "\xC2\xBD",
      "\xCC\x81",
      "\xE3\x80\x80",
      "\xE4\xBD\xA0",
      "\xC5\xBF",
      "\xF0\x9F\x98\x80",
      "\xE2\x80\xA8",
      "\xE2\x80\x99"};
  for (const auto pattern :
       {KnownPattern::kGpt2, KnownPattern::kLlama3, KnownPattern::kQwen2, KnownPattern::kQwen35}) {
    const Result<Regex> reference = Regex::compile(pattern_text(pattern));
    ASSERT_TRUE(reference) << reference.error().message;
    Rng rng(static_cast<uint64_t>(pattern));
    for (int round = 0; round < 4000; ++round) {
      std::string text;
      const uint64_t length = rng.below(24);
      for (uint64_t i = 0; i < length; ++i) text += alphabet[rng.below(alphabet.size())];
      std::vector<ByteRange> pieces;
      split_by_known_pattern(pattern, text, {0, text.size()}, pieces);
      ASSERT_EQ(pieces, reference->find_all(text)) << "round " << round << ": " << text;
    }
  }
}

TEST(KnownPatterns, AreLinearInRunsOfSpace) {
  const std::string spaces(1 << 20, ' ');
  EXPECT_EQ(split_with(KnownPattern::kQwen2, spaces).size(), 1U);
  EXPECT_EQ(split_with(KnownPattern::kQwen2, spaces + "x").size(), 2U);
  std::string lines;
  for (int i = 0; i < 100'000; ++i) lines += " \n";
  EXPECT_EQ(split_with(KnownPattern::kLlama3, lines + "x").size(), 2U);
}

TEST(PreTokenizer, WithoutStepsGivesOneWord) {
  EXPECT_THAT(words_of(PreTokenizer(), "a b"), ElementsAre("a b"));
}

TEST(PreTokenizer, SplitsWithEveryBehavior) {
  const auto with = [](SplitBehavior behavior, bool invert = false) {
    return words_of(pre_tokenizer_of(SplitStep{regex("-"), behavior, invert}), "a--b-");
  };
  EXPECT_THAT(with(SplitBehavior::kRemoved), ElementsAre("a", "b"));
  EXPECT_THAT(with(SplitBehavior::kRemoved, true), ElementsAre("-", "-", "-"));
  EXPECT_THAT(with(SplitBehavior::kIsolated), ElementsAre("a", "-", "-", "b", "-"));
  EXPECT_THAT(with(SplitBehavior::kMergedWithPrevious), ElementsAre("a-", "-", "b-"));
  EXPECT_THAT(with(SplitBehavior::kMergedWithNext), ElementsAre("a", "-", "-b", "-"));
  EXPECT_THAT(with(SplitBehavior::kContiguous), ElementsAre("a", "--", "b", "-"));
}

TEST(PreTokenizer, MarksSpacesOnlyWhereTheSchemeSays) {
  using Scheme = MetaspaceStep::PrependScheme;
  const auto with = [](Scheme scheme, bool is_front) {
    const PreTokenizer made = pre_tokenizer_of(MetaspaceStep{"_", scheme, true});
    Words words;
    made.split("a b", is_front, words);
    return std::string(words.text);
  };
  EXPECT_EQ(with(Scheme::kAlways, false), "_a_b");
  EXPECT_EQ(with(Scheme::kFirst, true), "_a_b");
  EXPECT_EQ(with(Scheme::kFirst, false), "a_b");
  EXPECT_EQ(with(Scheme::kNever, true), "a_b");
}

TEST(PreTokenizer, LeavesBytesToTheModelWhereByteLevelIsLast) {
  PreTokenizer last = pre_tokenizer_of(ByteLevelStep{true, true});
  EXPECT_TRUE(last.leaves_bytes());
  EXPECT_THAT(words_of(last, "a b"), ElementsAre(" a", " b"));
  last.write_byte_characters();
  EXPECT_THAT(
      words_of(last, "a b"),
      ElementsAre(
          "\xC4\xA0"
          "a",
          "\xC4\xA0"
          "b"
      )
  );
}

}  // namespace
}  // namespace millrace
