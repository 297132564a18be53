#include "server/choice_text.h"

#include <gtest/gtest.h>

#include "server/byte_tokenizer.h"

namespace millrace {
namespace {

struct Shown {
  std::string text;
  std::optional<std::string> stop_string;
};

Shown show(const std::string& output, const GenerationFields& fields) {
  const Tokenizer tokenizer = make_byte_tokenizer();
  ChoiceText choice(tokenizer, fields, {}, stop_strings_of(fields));
  Shown shown;
  for (const char byte : output) shown.text += choice.push(static_cast<unsigned char>(byte));
  shown.text += choice.finish();
  shown.stop_string = choice.stop_string();
  return shown;
}

TEST(ChoiceText, ShowsAllTextWithoutStopStrings) {
  const Shown shown = show("h\xC3\xA9llo", {});
  EXPECT_EQ(shown.text, "h\xC3\xA9llo");
  EXPECT_FALSE(shown.stop_string);
}

TEST(ChoiceText, HoldsBackAnIncompleteCharacter) {
  const Tokenizer tokenizer = make_byte_tokenizer();
  ChoiceText choice(tokenizer, {}, {}, nullptr);
  EXPECT_EQ(choice.push(0xC3), "");
  EXPECT_EQ(choice.push(0xA9), "\xC3\xA9");
}

TEST(ChoiceText, EndsBeforeAStopStringOrBehindItIfAsked) {
  EXPECT_EQ(show("one. two. three", {.stop = {". t"}}).text, "one");
  EXPECT_EQ(show("one. two. three", {.stop = {". t"}}).stop_string, ". t");
  const GenerationFields included{.stop = {". t"}, .include_stop_str_in_output = true};
  EXPECT_EQ(show("one. two. three", included).text, "one. t");
}

TEST(ChoiceText, ReleasesWhatTurnedOutNotToBeAStopString) {
  EXPECT_EQ(show("stO sto", {.stop = {"stop"}}).text, "stO sto");
}

TEST(ChoiceText, EchoesThePromptAheadOfTheText) {
  const Tokenizer tokenizer = make_byte_tokenizer();
  const std::vector<TokenId> prompt = {'h', 'i', 0xC3};  // ends within a character
  const GenerationFields fields{.stop = {"hi"}, .echo = true};
  ChoiceText choice(tokenizer, fields, prompt, stop_strings_of(fields));
  EXPECT_EQ(choice.take_echo(), "hi");
  EXPECT_EQ(choice.push(0xA9), "\xC3\xA9");
  EXPECT_FALSE(choice.stop_string()) << "a stop string in the prompt stops nothing";
}

// The text of a completion was begun anew: without the space before its first word, where a model's
// words begin with theirs, and without a character that the prompt had begun.
TEST(ChoiceText, GoesOnFromThePromptWhereItIsOne) {
  const Tokenizer tokenizer = make_byte_tokenizer();
  const std::vector<TokenId> prompt = {'h', 'i', 0xC3};
  ChoiceText completion(tokenizer, {.continues_prompt = true}, prompt, nullptr);
  EXPECT_EQ(completion.push(0xA9), "\xC3\xA9");
  ChoiceText chat(tokenizer, {}, prompt, nullptr);
  EXPECT_EQ(chat.push(0xA9), "\xEF\xBF\xBD");
}

TEST(ChoiceText, IgnoresStopStringsUntilMinTokens) {
  GenerationFields fields{.stop = {"a"}};
  fields.sampling.min_tokens = 3;
  EXPECT_EQ(show("aabbab", fields).text, "aabb");
}

}  // namespace
}  // namespace millrace
