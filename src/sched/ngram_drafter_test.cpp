#include "sched/ngram_drafter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "base/rng.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Tokens = std::vector<TokenId>;

constexpr NgramSpeculation kTwoToFour = {
    .num_speculative_tokens = 5, .prompt_lookup_max = 4, .prompt_lookup_min = 2};

// A sequence whose text may be guessed.
struct Text {
  Tokens prompt;
  Tokens output;
  NgramDrafter::Options options;
  NgramDrafter drafter;

  Text(Tokens prompt_, const NgramSpeculation& speculation, uint64_t hash_key = 1)
      : prompt(std::move(prompt_)),
        options{
            .speculation = speculation,
            .hash_key = hash_key,
            .num_prompt_tokens = static_cast<int32_t>(prompt.size())},
        drafter(options, NgramDrafter::make_prompt_index(options)) {}

  Tokens guess(int32_t num_tokens_max) {
    Tokens drafts = {-1};
    drafter.draft({.prompt = prompt, .output = output}, num_tokens_max, drafts);
    return drafts;
  }
  Tokens guess_after(const Tokens& more, int32_t num_tokens_max) {
    output.insert(output.end(), more.begin(), more.end());
    return guess(num_tokens_max);
  }
};

// The same without an index: every place is looked at.
Tokens guess_slowly(const Tokens& tokens, const NgramSpeculation& speculation, int32_t num_max) {
  const auto size = static_cast<int32_t>(tokens.size());
  for (int32_t length = speculation.prompt_lookup_max; length >= speculation.prompt_lookup_min;
       --length) {
    for (int32_t end = size - 1; end >= length; --end) {
      if (!std::equal(tokens.begin() + end - length, tokens.begin() + end, tokens.end() - length)) {
        continue;
      }
      Tokens drafts;
      Tokens all = tokens;
      for (int32_t i = 0; i < num_max; ++i) {
        drafts.push_back(all[static_cast<size_t>(end + i)]);
        all.push_back(drafts.back());
      }
      return drafts;
    }
  }
  return {};
}

TEST(NgramDrafter, GuessesWhatFollowedTheLastTokensBefore) {
  Text text({1, 2, 3, 4, 5, 6, 7}, kTwoToFour);
  EXPECT_THAT(text.guess_after({9}, 5), IsEmpty());
  EXPECT_THAT(text.guess_after({2}, 5), IsEmpty()) << "one token is not two";
  EXPECT_THAT(text.guess_after({3}, 3), ElementsAre(4, 5, 6));
  EXPECT_THAT(text.guess_after({8}, 5), IsEmpty());
}

TEST(NgramDrafter, TheLongestOccurrenceWinsAndThenTheLatest) {
  Text text({1, 2, 3, 50, 2, 3, 60, 9, 2, 3, 70}, kTwoToFour);
  EXPECT_THAT(text.guess_after({2, 3}, 1), ElementsAre(70)) << "the latest of three";
  EXPECT_THAT(text.guess_after({8, 1, 2, 3}, 1), ElementsAre(50)) << "three tokens before two";
  EXPECT_THAT(text.guess_after({8, 2, 3}, 1), ElementsAre(8))
      << "the output comes after the prompt";
}

TEST(NgramDrafter, ALoopIsGuessedAsALoop) {
  Text text({5}, {.num_speculative_tokens = 8, .prompt_lookup_max = 2, .prompt_lookup_min = 1});
  EXPECT_THAT(text.guess_after({1, 2, 3, 1}, 8), ElementsAre(2, 3, 1, 2, 3, 1, 2, 3));
  EXPECT_THAT(text.guess_after({7, 7}, 3), ElementsAre(7, 7, 7));
}

TEST(NgramDrafter, FindsWhatBeginsInThePromptAndEndsInTheOutput) {
  Text text({1, 2}, kTwoToFour);
  EXPECT_THAT(text.guess_after({3, 4, 8, 2, 3}, 2), ElementsAre(4, 8));
}

TEST(NgramDrafter, ALongPromptIsEnteredInSeveralCalls) {
  constexpr int32_t kNumTokens = 3 * NgramDrafter::kNumEndsPerCall;
  Tokens prompt(static_cast<size_t>(kNumTokens));
  for (int32_t i = 0; i < kNumTokens; ++i) prompt[static_cast<size_t>(i)] = i;
  Text text(prompt, kTwoToFour);
  text.output = {10, 11};
  EXPECT_THAT(text.guess(2), IsEmpty());
  EXPECT_THAT(text.guess(2), IsEmpty());
  EXPECT_THAT(text.guess(2), ElementsAre(12, 13));
  EXPECT_THAT(text.guess_after({12, 13}, 2), ElementsAre(14, 15));
}

TEST(NgramDrafter, ChoicesShareThePromptAndNothingElse) {
  const Tokens prompt = {1, 2, 3, 4, 5};
  const NgramDrafter::Options options{.speculation = kTwoToFour, .num_prompt_tokens = 5};
  const auto index = NgramDrafter::make_prompt_index(options);
  NgramDrafter first(options, index);
  NgramDrafter second(options, index);
  Tokens drafts;
  first.draft({.prompt = prompt, .output = Tokens{2, 3, 9, 2, 3}}, 1, drafts);
  EXPECT_THAT(drafts, ElementsAre(9));
  second.draft({.prompt = prompt, .output = Tokens{2, 3}}, 1, drafts);
  EXPECT_THAT(drafts, ElementsAre(4));
}

// Random texts of few tokens, one token after another, against a search through all of it; with
// two keys of the hashes, which must not show.
TEST(NgramDrafter, FindsWhatASearchFinds) {
  int num_found = 0;
  int num_not_found = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Rng rng(seed);
    const auto draw = [&rng](int32_t low, int32_t high) {
      return low + static_cast<int32_t>(rng.below(static_cast<uint64_t>(high - low + 1)));
    };
    const int32_t lookup_min = draw(1, 4);
    const NgramSpeculation speculation{
        .num_speculative_tokens = draw(1, 8),
        .prompt_lookup_max = draw(lookup_min, 6),
        .prompt_lookup_min = lookup_min};
    const int32_t vocab_size = draw(1, 12);
    Tokens prompt;
    for (int32_t i = draw(1, 60); i > 0; --i) prompt.push_back(draw(0, vocab_size - 1));
    Text text(prompt, speculation, rng.next());
    Text same(prompt, speculation, rng.next());
    Tokens all = prompt;
    for (int32_t i = 0; i < 80; ++i) {
      const TokenId token = draw(0, vocab_size - 1);
      all.push_back(token);
      text.output.push_back(token);
      same.output.push_back(token);
      if (draw(0, 3) == 0) continue;  // several tokens in one step
      const Tokens guessed = text.guess(speculation.num_speculative_tokens);
      ASSERT_EQ(guessed, guess_slowly(all, speculation, speculation.num_speculative_tokens));
      ASSERT_EQ(guessed, same.guess(speculation.num_speculative_tokens));
      ++(guessed.empty() ? num_not_found : num_found);
    }
  }
  EXPECT_GT(num_found, 1000);
  EXPECT_GT(num_not_found, 1000);
}

}  // namespace
}  // namespace millrace
