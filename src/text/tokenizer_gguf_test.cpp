#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "base/json.h"
#include "base/rng.h"
#include "text/tokenizer.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int32_t kNormal = 1;
constexpr int32_t kUnknown = 2;
constexpr int32_t kControl = 3;
constexpr int32_t kUserDefined = 4;
constexpr int32_t kByte = 6;

GgufVocabulary gpt2_vocabulary() {
  GgufVocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = "smollm";
  vocabulary.tokens = {
      "<|end|>",
      "a",
      "b",
      "\xC4\xA0",
      "1",
      "ab",
      "\xC4\xA0"
      "ab",
      "<think>"};
  vocabulary.token_types = {kControl, 1, 1, 1, 1, 1, 1, kUserDefined};
  vocabulary.merges = {"a b", "\xC4\xA0 ab"};
  vocabulary.bos = 0;
  vocabulary.add_bos = false;
  return vocabulary;
}

GgufVocabulary llama_vocabulary() {
  GgufVocabulary vocabulary;
  vocabulary.model = "llama";
  const std::string space = "\xE2\x96\x81";
  vocabulary.tokens = {"<unk>", "<s>", "</s>", "<0x78>", space, "a", "b", "ab", space + "a", "ba"};
  vocabulary.token_types = {kUnknown, kControl, kControl, kByte, 1, 1, 1, 1, 1, 1};
  vocabulary.scores = {0, 0, 0, 0, -10, -10, -10, -1, -2, -1};
  vocabulary.bos = 1;
  vocabulary.eos = 2;
  vocabulary.unknown = 0;
  return vocabulary;
}

std::string message_of(const GgufVocabulary& vocabulary) {
  const Result<Tokenizer> made = Tokenizer::from_gguf_vocabulary(vocabulary);
  return made ? "accepted" : made.error().message;
}

TEST(TokenizerGguf, ReadsByteLevelVocabularies) {
  const Result<Tokenizer> tokenizer = Tokenizer::from_gguf_vocabulary(gpt2_vocabulary());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_THAT(tokenizer->encode("ab ab11<|end|><think>"), ElementsAre(5, 6, 4, 4, 0, 7));
  const ByteRange plain{0, 100};
  // The control token has no letters in this vocabulary but those of its bytes that are known.
  EXPECT_THAT(tokenizer->encode("<|end|><think>", {.plain_text = {&plain, 1}}), ElementsAre(7));
  EXPECT_EQ(tokenizer->decode({{5, 6, 0, 7}}, true), "ab ab<think>");
  EXPECT_TRUE(tokenizer->is_special(0));
  EXPECT_FALSE(tokenizer->is_special(7));
}

TEST(TokenizerGguf, MergesByScoreAndFallsBackToBytes) {
  const Result<Tokenizer> tokenizer = Tokenizer::from_gguf_vocabulary(llama_vocabulary());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  // "ab" and "ba" have the best score; of equals the leftmost merges first.
  EXPECT_THAT(tokenizer->encode("aba"), ElementsAre(1, 4, 7, 5));
  EXPECT_THAT(tokenizer->encode("a"), ElementsAre(1, 8));
  EXPECT_THAT(tokenizer->encode("bax"), ElementsAre(1, 4, 9, 3));
  EXPECT_THAT(tokenizer->encode("zz"), ElementsAre(1, 4, 0));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a ab x"), true), "a ab x");
}

TEST(TokenizerGguf, AddsTheSpaceAndTheEndsThatTheFileAsksFor) {
  GgufVocabulary vocabulary = llama_vocabulary();
  vocabulary.add_space_prefix = false;
  vocabulary.add_bos = false;
  vocabulary.add_eos = true;
  const Result<Tokenizer> tokenizer = Tokenizer::from_gguf_vocabulary(vocabulary);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_THAT(tokenizer->encode("ab"), ElementsAre(7, 2));
  EXPECT_THAT(
      tokenizer->encode("ab", {.add_special_tokens = false, .plain_text = {}}), ElementsAre(7)
  );
  EXPECT_EQ(tokenizer->decode({{8}}, true), " a");
}

TEST(TokenizerGguf, AddsTheBeginningOfLlama3WhereTheFileDoesNotSay) {
  GgufVocabulary vocabulary = gpt2_vocabulary();
  vocabulary.pre = "llama-bpe";
  vocabulary.add_bos.reset();
  EXPECT_THAT(Tokenizer::from_gguf_vocabulary(vocabulary)->encode("ab"), ElementsAre(0, 5));
  vocabulary.bos.reset();
  EXPECT_THAT(Tokenizer::from_gguf_vocabulary(vocabulary)->encode("ab"), ElementsAre(5));
  vocabulary.add_bos = true;
  EXPECT_THAT(message_of(vocabulary), HasSubstr("without a bos_token_id"));
}

TEST(TokenizerGguf, RefusesByName) {
  GgufVocabulary vocabulary = gpt2_vocabulary();
  vocabulary.model = "t5";
  EXPECT_THAT(message_of(vocabulary), HasSubstr("tokenizer.ggml.model is \"t5\""));
  vocabulary = gpt2_vocabulary();
  vocabulary.pre = "unheard-of";
  EXPECT_THAT(message_of(vocabulary), HasSubstr("tokenizer.ggml.pre is \"unheard-of\""));
  vocabulary = gpt2_vocabulary();
  vocabulary.tokens.clear();
  EXPECT_THAT(message_of(vocabulary), HasSubstr("tokenizer.ggml.tokens has 0"));
  vocabulary = gpt2_vocabulary();
  vocabulary.tokens[1] = "\xFF";
  EXPECT_THAT(message_of(vocabulary), HasSubstr("entry 1 that is not UTF-8"));
  vocabulary = gpt2_vocabulary();
  vocabulary.tokens[2] = "a";
  EXPECT_THAT(message_of(vocabulary), HasSubstr("\"a\" stands twice"));
  vocabulary = gpt2_vocabulary();
  vocabulary.token_types.pop_back();
  EXPECT_THAT(message_of(vocabulary), HasSubstr("tokenizer.ggml.token_type has 7"));
  vocabulary = gpt2_vocabulary();
  vocabulary.merges.push_back("nospace");
  EXPECT_THAT(message_of(vocabulary), HasSubstr("entry 2 that is not a pair"));
  vocabulary = gpt2_vocabulary();
  vocabulary.merges.clear();
  EXPECT_THAT(message_of(vocabulary), HasSubstr("tokenizer.ggml.merges is missing"));
  vocabulary = gpt2_vocabulary();
  vocabulary.bos = 8;
  EXPECT_THAT(message_of(vocabulary), HasSubstr("tokenizer.ggml.bos_token_id is 8"));
  vocabulary = gpt2_vocabulary();
  vocabulary.add_eos = true;
  EXPECT_THAT(message_of(vocabulary), HasSubstr("without an eos_token_id"));
  vocabulary = llama_vocabulary();
  vocabulary.scores[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(message_of(vocabulary), HasSubstr("entry 3 that is not a number"));
  vocabulary.scores.clear();
  EXPECT_THAT(message_of(vocabulary), HasSubstr("tokenizer.ggml.scores is missing"));
}

// A tokenizer.json of the SentencePiece family turned back into scores: the token that an earlier
// merge makes has the better one.
TEST(TokenizerGguf, AgreesWithTheTokenizerJsonOfTheSameModel) {
  const std::string path =
      std::string(MILLRACE_SOURCE_DIR) + "/../shared/data/models/stories260k/tokenizer.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs the folder shared/data/models";
  const Result<Tokenizer> expected = Tokenizer::from_file(path);
  const Result<json::value> document = read_json_file(path);
  ASSERT_TRUE(expected);
  ASSERT_TRUE(document);
  const json::object& model = document->at("model").as_object();
  GgufVocabulary vocabulary;
  vocabulary.model = "llama";
  const size_t num_tokens = model.at("vocab").as_object().size();
  vocabulary.tokens.resize(num_tokens);
  vocabulary.scores.assign(num_tokens, -1e6F);
  vocabulary.token_types.assign(num_tokens, kNormal);
  for (const auto& [text, id] : model.at("vocab").as_object()) {
    vocabulary.tokens[static_cast<size_t>(id.as_int64())] = text;
  }
  float score = 0;
  for (const json::value& merge : model.at("merges").as_array()) {
    const std::string whole =
        std::string(merge.at(0).as_string()) + std::string(merge.at(1).as_string());
    const auto id = static_cast<size_t>(model.at("vocab").at(whole).as_int64());
    if (vocabulary.scores[id] == -1e6F) vocabulary.scores[id] = score;
    score -= 1;
  }
  vocabulary.token_types[0] = kUnknown;
  vocabulary.token_types[1] = vocabulary.token_types[2] = kControl;
  for (size_t i = 3; i < 259; ++i) vocabulary.token_types[i] = kByte;
  vocabulary.unknown = 0;
  vocabulary.bos = 1;
  vocabulary.eos = 2;
  const Result<Tokenizer> actual = Tokenizer::from_gguf_vocabulary(vocabulary);
  ASSERT_TRUE(actual) << actual.error().message;
  const std::vector<std::string> words = {
      "Once",
      " upon",
      " a",
      " time",
      ",",
      " there",
      " was",
      "\n",
      " little",
      " girl",
      " named",
      " Lily",
      ".",
      "\xC3\xA9",
      "  "};
  Rng rng(2);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (uint64_t i = rng.below(12); i > 0; --i) text += words[rng.below(words.size())];
    ASSERT_EQ(actual->encode(text), expected->encode(text)) << text;
  }
}

}  // namespace
}  // namespace millrace
