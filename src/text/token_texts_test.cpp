// The table against the walk through the decoder's steps, which is the oracle.
#include "text/token_texts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/rng.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace millrace {
namespace {

// What the walk gives for each of `ids`, one at a time.
std::vector<std::string> walk(
    const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip_special_tokens
) {
  DecodeStream stream(tokenizer.decoder());
  std::vector<std::string> pieces;
  for (const TokenId id : ids) {
    const auto token = tokenizer.decoded_token(id, skip_special_tokens);
    if (token) stream.push(*token);
    pieces.push_back(stream.take());
  }
  stream.finish();
  pieces.push_back(stream.take());
  return pieces;
}

void expect_same_pieces(
    const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip_special_tokens
) {
  const std::vector<std::string> expected = walk(tokenizer, ids, skip_special_tokens);
  IncrementalDetokenizer detokenizer(tokenizer, skip_special_tokens);
  for (size_t i = 0; i < ids.size(); ++i) {
    ASSERT_EQ(detokenizer.push(ids[i]), expected[i]) << "id " << ids[i] << " at " << i;
  }
  ASSERT_EQ(detokenizer.finish(), expected.back());
}

// A word, then every token of the vocabulary with that word behind it; then tokens at random, among
// which parts of characters meet.
void check_vocabulary(const Tokenizer& tokenizer) {
  const std::vector<TokenId> word = tokenizer.encode("a word", {.add_special_tokens = false});
  const auto id_end = static_cast<TokenId>(tokenizer.vocab_size());
  std::vector<TokenId> ids = word;
  for (TokenId id = 0; id < id_end; ++id) {
    ids.push_back(id);
    ids.push_back(word.back());
  }
  Rng rng(3);
  for (int i = 0; i < 50'000; ++i) {
    ids.push_back(static_cast<TokenId>(rng.below(tokenizer.vocab_size() + 2)));
  }
  for (const bool skip : {false, true}) expect_same_pieces(tokenizer, ids, skip);
}

// How many tokens need no walk.
size_t num_known(const Tokenizer& tokenizer) {
  size_t num = 0;
  for (size_t id = 0; id < tokenizer.vocab_size(); ++id) {
    num += tokenizer.texts().find(static_cast<TokenId>(id), false) ? 1 : 0;
  }
  return num;
}

TEST(TokenTexts, AgreesWithTheWalkForEveryTokenOfPublishedVocabularies) {
  const std::string root = std::string(MILLRACE_SOURCE_DIR) + "/../shared/data/";
  if (!std::filesystem::exists(root)) GTEST_SKIP() << "needs the folder " << root;
  for (const char* model :
       {"tokenizers/smollm2", "tokenizers/qwen3", "tokenizers/llama3.1", "models/stories260k"}) {
    SCOPED_TRACE(model);
    const Result<Tokenizer> tokenizer = Tokenizer::from_file(root + model + "/tokenizer.json");
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    check_vocabulary(*tokenizer);
    // 256 of the 512 tokens of stories260k are bytes.
    const size_t num_left_out = tokenizer->vocab_size() - num_known(*tokenizer);
    EXPECT_LT(num_left_out, 260 + tokenizer->vocab_size() / 50);
  }
}

Tokenizer make(std::string_view vocabulary, std::string_view decoder) {
  Result<Tokenizer> made = Tokenizer::from_json(fmt::format(
      R"({{"model": {{"type": "BPE", "vocab": {}, "merges": []}}, "decoder": {}}})",
      vocabulary,
      decoder
  ));
  EXPECT_TRUE(made) << made.error().message;
  return *std::move(made);
}

TEST(TokenTexts, LeavesOutPartsOfCharacters) {
  const Tokenizer tokenizer =
      make(R"({"\u00c3": 0, "\u00a9": 1, "\u00c3\u00a9": 2, "a": 3})", R"({"type": "ByteLevel"})");
  const TokenTexts& texts = tokenizer.texts();
  EXPECT_EQ(texts.find(0, false), std::nullopt) << "the first byte of two";
  EXPECT_EQ(texts.find(1, false), kReplacementCharacter) << "can end nothing that is settled";
  EXPECT_EQ(texts.find(2, false), "\xC3\xA9");
  EXPECT_EQ(texts.find(3, false), "a");
  expect_same_pieces(tokenizer, {3, 0, 1, 1, 0, 3, 0, 0, 2, 1, 3}, false);
}

TEST(TokenTexts, LeavesOutBytesThatFallBack) {
  const Tokenizer tokenizer = make(
      R"({"<0xC3>": 0, "<0xA9>": 1, "<0x41>": 2, "\u2581the": 3, "\u2581": 4})",
      R"({"type": "Sequence", "decoders": [)"
      R"({"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},)"
      R"({"type": "ByteFallback"}, {"type": "Fuse"},)"
      R"({"type": "Strip", "content": " ", "start": 1, "stop": 0}]})"
  );
  const TokenTexts& texts = tokenizer.texts();
  for (const TokenId id : {0, 1, 2}) EXPECT_EQ(texts.find(id, false), std::nullopt) << id;
  EXPECT_EQ(texts.find(3, false), " the");
  EXPECT_EQ(texts.find(5, false), std::nullopt) << "no token";
  EXPECT_EQ(texts.find(-1, false), std::nullopt);
  // The first space of a text goes, and a run of bytes is decoded as a whole.
  expect_same_pieces(tokenizer, {3, 3, 0, 1, 3, 0, 3, 2, 4, 1, 1}, false);
  expect_same_pieces(tokenizer, {4, 4, 3}, false);
}

TEST(TokenTexts, LeavesOutDecodersThatMakeMuchOfLittle) {
  const std::string vocabulary = R"({"aaaa": 0})";
  const auto decoder = [](size_t size) {
    return fmt::format(
        R"({{"type": "Replace", "pattern": {{"String": "a"}}, "content": "{}"}})",
        std::string(size, 'b')
    );
  };
  EXPECT_EQ(make(vocabulary, decoder(2)).texts().find(0, false), "bbbbbbbb");
  const Tokenizer large = make(vocabulary, decoder(1000));
  EXPECT_EQ(large.texts().find(0, false), std::nullopt);
  EXPECT_EQ(large.decode({{0}}, false), std::string(4000, 'b'));
}

TEST(TokenTexts, SkipsSpecialTokensWhereTheyAreSkipped) {
  const Result<Tokenizer> tokenizer =
      Tokenizer::from_json(R"({"added_tokens": [{"id": 1, "content": "<|s|>", "special": true}],)"
                           R"( "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},)"
                           R"( "decoder": {"type": "ByteLevel"}})");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->texts().find(1, false), "<|s|>");
  EXPECT_EQ(tokenizer->texts().find(1, true), "");
  for (const bool skip : {false, true}) expect_same_pieces(*tokenizer, {1, 0, 1, 0}, skip);
}

}  // namespace
}  // namespace millrace
