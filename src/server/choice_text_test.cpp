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
  EXPECT_EQ(choice.take_echo().text, "hi");
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

// Where each token stands, its prompt's first, and the whole text.
struct Placed {
  std::vector<int64_t> offsets;
  std::string text;
};

Placed place(
    const Tokenizer& tokenizer,
    GenerationFields fields,
    const std::vector<TokenId>& prompt,
    const std::vector<TokenId>& output
) {
  fields.sampling.logprobs = 0;
  ChoiceText choice(tokenizer, fields, prompt, nullptr);
  ChoiceText::Echo echo = choice.take_echo();
  Placed placed{std::move(echo.text_offsets), std::move(echo.text)};
  for (const TokenId id : output) {
    placed.offsets.push_back(choice.text_offset());
    placed.text += choice.push(id);
  }
  placed.text += choice.finish();
  return placed;
}

using Offsets = std::vector<int64_t>;

TEST(ChoiceText, OffsetsCountCharactersOfTheTextThatIsShown) {
  const Tokenizer tokenizer = make_byte_tokenizer();
  const std::vector<TokenId> output = {
      0xE2, 0x82, 0xAC, 'x', kByteTokenizerHello, kByteTokenizerEnd, 'y'};
  const Placed placed = place(tokenizer, {}, {}, output);
  EXPECT_EQ(placed.text, "\xE2\x82\xACxHelloy");
  EXPECT_EQ(placed.offsets, (Offsets{0, 0, 0, 1, 2, 7, 7}));
  const GenerationFields with_special{.skip_special_tokens = false};
  EXPECT_EQ(place(tokenizer, with_special, {}, output).offsets, (Offsets{0, 0, 0, 1, 2, 7, 14}));
  const Placed echoed = place(tokenizer, {.echo = true}, {'h', 'i', 0xC3}, {0xA9, '!'});
  EXPECT_EQ(echoed.text, "hi\xC3\xA9!");
  EXPECT_EQ(echoed.offsets, (Offsets{0, 1, 2, 2, 3}));
}

// The offsets were counted in what tokens hold: a text's first space, which is not shown, was one
// too many, and bytes that are no UTF-8 had none.
TEST(ChoiceText, OffsetsAreThoseOfWhatTheDecoderShows) {
  const Result<Tokenizer> tokenizer = Tokenizer::from_json(
      R"({"model": {"type": "BPE", "byte_fallback": true, "merges": [], "vocab": {"<unk>": 0,)"
      R"( "\u2581Once": 1, "\u2581upon": 2, "<0x80>": 3, "<0xC3>": 4, "<0xA9>": 5}},)"
      R"( "decoder": {"type": "Sequence", "decoders": [)"
      R"({"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},)"
      R"( {"type": "ByteFallback"}, {"type": "Fuse"},)"
      R"( {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}})"
  );
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const Placed words = place(*tokenizer, {.echo = true}, {1, 2}, {2, 1});
  EXPECT_EQ(words.text, "Once upon upon Once");
  EXPECT_EQ(words.offsets, (Offsets{0, 4, 9, 14}));
  const Placed bytes = place(*tokenizer, {}, {}, {3, 3, 3, 1});
  EXPECT_EQ(bytes.text, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD Once");
  EXPECT_EQ(bytes.offsets, (Offsets{0, 1, 2, 3}));
  const Placed cut = place(*tokenizer, {}, {}, {4, 4, 5, 1});  // no UTF-8 from the second on
  EXPECT_EQ(cut.offsets, (Offsets{0, 0, 2, 3}));
  const Placed characters = place(*tokenizer, {.continues_prompt = true}, {1}, {4, 5, 4, 5, 2});
  EXPECT_EQ(characters.text, "\xC3\xA9\xC3\xA9 upon");
  EXPECT_EQ(characters.offsets, (Offsets{0, 0, 1, 1, 2}));
}

TEST(ChoiceText, IgnoresStopStringsUntilMinTokens) {
  GenerationFields fields{.stop = {"a"}};
  fields.sampling.min_tokens = 3;
  EXPECT_EQ(show("aabbab", fields).text, "aabb");
}

// One that began in the first min_tokens tokens was missed.
TEST(ChoiceText, AStopStringMayBeginWithinMinTokens) {
  GenerationFields fields{.stop = {"bcd"}};
  fields.sampling.min_tokens = 3;
  EXPECT_EQ(show("abcde", fields).text, "a");
  EXPECT_EQ(show("abcde", fields).stop_string, "bcd");
  fields.sampling.min_tokens = 4;
  EXPECT_EQ(show("abcde", fields).text, "abcde");
  fields.stop = {"aa"};
  fields.sampling.min_tokens = 2;
  EXPECT_EQ(show("aaab", fields).text, "a");
  EXPECT_EQ(show("aa", fields).text, "aa");
}

}  // namespace
}  // namespace millrace
