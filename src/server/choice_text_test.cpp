#include "server/choice_text.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

// Byte-level tokenizer whose vocabulary is the 256 bytes: one token a byte.
Tokenizer byte_tokenizer() {
  json::object vocabulary;
  int next = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    const int code = printable ? byte : 256 + next++;
    std::string text;
    if (code < 128) {
      text.push_back(static_cast<char>(code));
    } else {
      text.push_back(static_cast<char>(0xC0 | (code >> 6)));
      text.push_back(static_cast<char>(0x80 | (code & 0x3F)));
    }
    vocabulary[text] = byte;
  }
  const json::object tokenizer = {
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"decoder", {{"type", "ByteLevel"}}},
  };
  Result<Tokenizer> made = Tokenizer::from_json(json::serialize(tokenizer));
  CHECK(made.ok(), made.error().message);
  return *std::move(made);
}

struct Shown {
  std::string text;
  std::optional<std::string> stop_string;
};

Shown show(const std::string& output, const GenerationFields& fields) {
  const Tokenizer tokenizer = byte_tokenizer();
  ChoiceText choice(tokenizer, fields, {});
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
  const Tokenizer tokenizer = byte_tokenizer();
  ChoiceText choice(tokenizer, {}, {});
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
  const Tokenizer tokenizer = byte_tokenizer();
  const std::vector<TokenId> prompt = {'h', 'i', 0xC3};  // ends within a character
  ChoiceText choice(tokenizer, {.stop = {"hi"}, .echo = true}, prompt);
  EXPECT_EQ(choice.take_echo(), "hi");
  EXPECT_EQ(choice.push(0xA9), "\xC3\xA9");
  EXPECT_FALSE(choice.stop_string()) << "a stop string in the prompt stops nothing";
}

TEST(ChoiceText, IgnoresStopStringsUntilMinTokens) {
  GenerationFields fields{.stop = {"a"}};
  fields.sampling.min_tokens = 3;
  EXPECT_EQ(show("aabbab", fields).text, "aabb");
}

}  // namespace
}  // namespace millrace
