#include "text/tokenizer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/rng.h"
#include "text/detokenizer.h"
#include "text/unicode.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A tokenizer.json over single letters, with members of the document to add.
std::string document(std::string_view members, std::string_view model_members = "") {
  return fmt::format(
      R"({{"version": "1.0", {} "model": {{"type": "BPE", {} "vocab": {{"a": 0, "b": 1, "c": 2,)"
      R"( "ab": 3, "<": 4, "|": 5, "s": 6, ">": 7, " ": 8, "A": 9}}, "merges": ["a b"]}}}})",
      members,
      model_members
  );
}

constexpr std::string_view kAdded =
    R"("added_tokens": [{"id": 20, "content": "<|s|>", "special": true},)"
    R"( {"id": 21, "content": "<b>", "special": false}],)";

Tokenizer make(const std::string& json) {
  Result<Tokenizer> made = Tokenizer::from_json(json);
  EXPECT_TRUE(made) << made.error().message;
  return *std::move(made);
}

TEST(Tokenizer, ReadsEmptyText) {
  const Tokenizer tokenizer = make(document(kAdded));
  EXPECT_TRUE(tokenizer.encode("").empty());
  EXPECT_EQ(tokenizer.decode({}, false), "");
}

TEST(Tokenizer, CountsOnlyWhatMayMatter) {
  const auto over = [](std::string_view model_members) {
    return make(fmt::format(
        R"({{"model": {{"type": "BPE", {} "vocab": {{"a": 0, "aa": 1, "<unk>": 2}},)"
        R"( "merges": ["a a"]}}}})",
        model_members
    ));
  };
  const std::string word(1'000'000, 'a');
  const Tokenizer losing = over("");
  EXPECT_EQ(losing.encode_at_most(500'000, word)->size(), 500'000U);
  EXPECT_EQ(losing.encode_at_most(499'999, word), std::nullopt);
  EXPECT_EQ(losing.encode_at_most(0, word), std::nullopt);
  EXPECT_EQ(losing.encode_at_most(0, "")->size(), 0U);
  // Characters that are no token are left out, or are one token together.
  const std::string strange(1'000'000, 'x');
  EXPECT_EQ(losing.encode_at_most(0, strange)->size(), 0U);
  const Tokenizer fusing = over(R"("unk_token": "<unk>", "fuse_unk": true,)");
  EXPECT_EQ(fusing.encode_at_most(1, strange)->size(), 1U);
  const Tokenizer single = over(R"("unk_token": "<unk>",)");
  EXPECT_EQ(single.encode_at_most(strange.size(), strange)->size(), strange.size());
  EXPECT_EQ(single.encode_at_most(strange.size() - 1, strange), std::nullopt);
}

TEST(Tokenizer, AnswersForEveryIdWithoutCrashing) {
  const Tokenizer tokenizer = make(document(kAdded));
  EXPECT_EQ(tokenizer.vocab_size(), 22U);
  EXPECT_EQ(tokenizer.token_text(3), "ab");
  EXPECT_EQ(tokenizer.token_text(20), "<|s|>");
  EXPECT_EQ(tokenizer.token_id("ab"), 3);
  EXPECT_EQ(tokenizer.token_id("<b>"), 21);
  EXPECT_EQ(tokenizer.token_id("zz"), std::nullopt);
  EXPECT_TRUE(tokenizer.is_special(20));
  EXPECT_FALSE(tokenizer.is_special(21));
  for (const TokenId id : {-1, 10, 19, 22, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(tokenizer.token_text(id), std::nullopt);
    EXPECT_EQ(tokenizer.token_bytes(id), "");
    EXPECT_FALSE(tokenizer.is_special(id));
    EXPECT_EQ(tokenizer.decode({{id, 0, id, 1}}, false), "a b");
  }
}

TEST(Tokenizer, DoesNotRecogniseSpecialTokensInPlainText) {
  const Tokenizer tokenizer = make(document(kAdded));
  const std::string text = "<|s|>a<|s|><b>";
  EXPECT_THAT(tokenizer.encode(text), ElementsAre(20, 0, 20, 21));
  const auto with = [&](ByteRange plain) {
    return tokenizer.encode(text, {.plain_text = {&plain, 1}});
  };
  // The user wrote the second one, and a tag that is not special.
  EXPECT_THAT(with({5, 14}), ElementsAre(20, 0, 4, 5, 6, 5, 7, 21));
  EXPECT_THAT(with({0, 5}), ElementsAre(4, 5, 6, 5, 7, 0, 20, 21));
  // One byte of it is enough, at either end.
  EXPECT_THAT(with({10, 11}), ElementsAre(20, 0, 4, 5, 6, 5, 7, 21));
  EXPECT_THAT(with({5, 7}), ElementsAre(20, 0, 4, 5, 6, 5, 7, 21));
  EXPECT_THAT(with({5, 6}), ElementsAre(20, 0, 20, 21));
  EXPECT_THAT(with({5, 5}), ElementsAre(20, 0, 20, 21));
  EXPECT_THAT(with({5, 5000}), ElementsAre(20, 0, 4, 5, 6, 5, 7, 21));
}

TEST(Tokenizer, KeepsWordsWholeAcrossTheEdgeOfPlainText) {
  const Tokenizer tokenizer = make(document(kAdded));
  const ByteRange plain{1, 2};
  EXPECT_THAT(tokenizer.encode("ab", {.plain_text = {&plain, 1}}), ElementsAre(3));
}

TEST(Tokenizer, CarriesPlainTextThroughTheNormalizer) {
  const Tokenizer tokenizer = make(document(
      R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "c"},)"
      R"( {"type": "Replace", "pattern": {"String": "aa"}, "content": "b"},)"
      R"( {"type": "Lowercase"}]},)"
      R"( "added_tokens": [{"id": 20, "content": "<s>", "special": true, "normalized": true}],)"
  ));
  // The normalized content is "c<s>", as in the reference.
  EXPECT_THAT(tokenizer.encode("<S>aa"), ElementsAre(20, 1));
  const ByteRange user{0, 3};
  EXPECT_THAT(tokenizer.encode("<S>aa", {.plain_text = {&user, 1}}), ElementsAre(2, 4, 6, 7, 1));
  const ByteRange behind{3, 5};
  EXPECT_THAT(tokenizer.encode("<S>aa", {.plain_text = {&behind, 1}}), ElementsAre(20, 1));
}

// One of two tokens took the other as white space, and both were emitted. As the reference.
TEST(Tokenizer, EmitsNoTokenThatTheOneBeforeItTook) {
  const auto encoded = [](std::string_view flags, std::string_view text) {
    return make(document(
                    fmt::format(R"("added_tokens": [{{"id": 20, "content": "\n", {}}}],)", flags)
                ))
        .encode(text);
  };
  EXPECT_THAT(encoded(R"("lstrip": true, "rstrip": true)", "\n\na\n \n"), ElementsAre(20, 0, 20));
  EXPECT_THAT(encoded(R"("rstrip": true)", "\n\n"), ElementsAre(20, 20));
  EXPECT_THAT(encoded(R"("lstrip": true)", "a \n\n"), ElementsAre(0, 20, 20));
}

TEST(Tokenizer, ReadsInvalidUtf8AsReplacementCharacters) {
  const Tokenizer tokenizer = make(document(kAdded, R"("unk_token": "c",)"));
  EXPECT_EQ(tokenizer.encode("a\xFF\xE2\x82z"), tokenizer.encode("a\xEF\xBF\xBD\xEF\xBF\xBDz"));
  // The plain ranges move with the text: the user wrote the second token only.
  const ByteRange plain{6, 12};
  EXPECT_THAT(
      tokenizer.encode("<|s|>\xFF\xFF<|s|>", {.plain_text = {&plain, 1}}),
      ElementsAre(20, 2, 2, 4, 5, 6, 5, 7)
  );
}

TEST(Tokenizer, IsTheSameFromManyThreads) {
  const Tokenizer tokenizer = make(document(kAdded));
  const std::vector<TokenId> expected = tokenizer.encode("abc<|s|>cab<b>");
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 200; ++k) EXPECT_EQ(tokenizer.encode("abc<|s|>cab<b>"), expected);
    });
  }
}

TEST(Tokenizer, GivesTheBytesOfATokenInTheMiddleOfAText) {
  const Tokenizer llama = make(
      R"({"model": {"vocab": {"<0xC3>": 0, "\u2581the": 1}, "merges": []}, "decoder":)"
      R"( {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"},)"
      R"( "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},)"
      R"( {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}})"
  );
  EXPECT_EQ(llama.token_bytes(0), "\xC3");
  EXPECT_EQ(llama.token_bytes(1), " the");
  EXPECT_EQ(llama.decode({{1, 1}}, false), "the the");
  const Tokenizer bytes = make(
      R"({"model": {"vocab": {"\u0120\u00c3": 0}, "merges": []}, "decoder": {"type": "ByteLevel"}})"
  );
  EXPECT_EQ(bytes.token_bytes(0), " \xC3");
}

TEST(IncrementalDetokenizer, HoldsBackIncompleteCharacters) {
  const Tokenizer bytes =
      make(R"({"model": {"vocab": {"\u00e2": 0, "\u0124": 1, "\u00ac": 2, "a": 3}, "merges": []},)"
           R"( "decoder": {"type": "ByteLevel"}})");
  IncrementalDetokenizer detokenizer(bytes, false);
  EXPECT_EQ(detokenizer.push(3), "a");
  EXPECT_EQ(detokenizer.push(0), "");
  EXPECT_EQ(detokenizer.push(1), "");
  EXPECT_EQ(detokenizer.push(2), "\xE2\x82\xAC");
  EXPECT_EQ(detokenizer.push(0), "");
  EXPECT_EQ(detokenizer.push(99), "");
  EXPECT_EQ(
      detokenizer.push(3),
      "\xEF\xBF\xBD"
      "a"
  );
  EXPECT_EQ(detokenizer.push(0), "");
  EXPECT_EQ(detokenizer.finish(), "\xEF\xBF\xBD");
}

// Whatever the chain of decoders, pieces and whole agree, and pieces are UTF-8.
TEST(IncrementalDetokenizer, GivesTheDecodingOfTheWholeForEveryChain) {
  const std::vector<std::string> steps = {
      R"({"type": "ByteLevel"})",
      R"({"type": "ByteFallback"})",
      R"({"type": "Fuse"})",
      R"({"type": "Strip", "content": "a", "start": 1, "stop": 0})",
      R"({"type": "Strip", "content": "b", "start": 0, "stop": 2})",
      R"({"type": "Replace", "pattern": {"String": "ab"}, "content": "ba"})",
      R"({"type": "Replace", "pattern": {"Regex": "a+"}, "content": "\u2581"})",
      R"({"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"})"};
  const std::string vocabulary =
      R"({"a": 0, "b": 1, "ab": 2, "ba": 3, "<0xC3>": 4, "<0xA9>": 5, "\u2581": 6, "\u2581a": 7,)"
      R"( "\u00c3": 8, "\u00a9": 9, "bb": 10, "\u4f60": 11, "<0xA": 12, "9>": 13})";
  Rng rng(11);
  for (int round = 0; round < 400; ++round) {
    std::string chain;
    const uint64_t num_steps = rng.below(5);
    for (uint64_t i = 0; i < num_steps; ++i) {
      chain += (i == 0 ? "" : ",") + steps[rng.below(steps.size())];
    }
    const Tokenizer tokenizer = make(fmt::format(
        R"({{"model": {{"vocab": {}, "merges": []}}, "decoder": {{"type": "Sequence",)"
        R"( "decoders": [{}]}}}})",
        vocabulary,
        chain
    ));
    for (int i = 0; i < 20; ++i) {
      std::vector<TokenId> ids(rng.below(12));
      for (TokenId& id : ids) id = static_cast<TokenId>(rng.below(14));
      IncrementalDetokenizer detokenizer(tokenizer, false);
      std::string pieces;
      for (const TokenId id : ids) {
        const std::string_view piece = detokenizer.push(id);
        ASSERT_TRUE(is_valid_utf8(piece));
        pieces += piece;
      }
      pieces += detokenizer.finish();
      ASSERT_EQ(pieces, tokenizer.decode(ids, false)) << chain;
    }
  }
}

using Refusals = std::vector<std::pair<std::string, std::string>>;

// Each document is refused, with an error of one line that holds the text beside it.
void expect_refusals(const Refusals& refusals) {
  for (const auto& [json, expected] : refusals) {
    const Result<Tokenizer> tokenizer = Tokenizer::from_json(json);
    ASSERT_FALSE(tokenizer) << json;
    EXPECT_THAT(tokenizer.error().message, HasSubstr(expected)) << json;
    EXPECT_EQ(tokenizer.error().message.find('\n'), std::string::npos);
  }
}

TEST(TokenizerJson, RefusesModelsByPathAndName) {
  expect_refusals({
      {"", "not valid JSON"},
      {"[]", "lacks \"model\""},
      {"{}", "lacks \"model\""},
      {R"({"version": "2.0", "model": {}})", "version is not \"1.0\""},
      {R"({"model": {"type": "Unigram"}})", "model is of the type \"Unigram\""},
      {R"({"model": {"type": "WordPiece"}})", "model is of the type \"WordPiece\""},
      {R"({"model": {"vocab": 1, "merges": []}})", "model.vocab is not an object"},
      {R"({"model": {"vocab": {}}})", "model lacks \"merges\""},
      {R"({"model": {"vocab": {"a": 0, "b": 0}, "merges": []}})", "have the same id 0"},
      {R"({"model": {"vocab": {"a": -1}, "merges": []}})", "model.vocab gives \"a\" an id"},
      {R"({"model": {"vocab": {"a": 2147483648}, "merges": []}})", "model.vocab gives \"a\" an id"},
      {R"({"model": {"vocab": {"a": 1.5}, "merges": []}})", "model.vocab gives \"a\" an id"},
      {R"({"model": {"vocab": {"a": 0}, "merges": ["a"]}})", "model.merges[0] is not a pair"},
      {R"({"model": {"vocab": {"a": 0}, "merges": [["a", 1]]}})", "model.merges[0] is not a pair"},
      {R"({"model": {"vocab": {"a": 0}, "merges": ["a a"]}})", "makes \"aa\""},
  });
}

TEST(TokenizerJson, RefusesComponentsByPathAndName) {
  expect_refusals({
      {document("", R"("dropout": 0.1,)"), "model.dropout is not zero"},
      {document("", R"("unk_token": "u",)"), "unknown token \"u\""},
      {document(R"("normalizer": {"type": "Precompiled"},)"), "normalizer is the normalizer \"Pre"},
      {document(R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "Nmt"}]},)"),
       "normalizer.normalizers[0] is the normalizer \"Nmt\""},
      {document(R"("normalizer": {"type": "Replace", "pattern": {"String": ""}, "content": ""},)"),
       "normalizer.pattern.String: an empty string"},
      {document(R"("pre_tokenizer": {"type": "BertPreTokenizer"},)"), "\"BertPreTokenizer\""},
      {document(R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("},)"
                R"( "behavior": "Isolated", "invert": false},)"),
       "pre_tokenizer.pattern.Regex: not a usable regular expression"},
      {document(R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "a"},)"
                R"( "behavior": "Glued"},)"),
       "pre_tokenizer.behavior is not a known behavior"},
      {document(R"("decoder": {"type": "WordPiece"},)"), "decoder is the decoder \"WordPiece\""},
      {document(R"("decoder": {"type": "Strip", "content": "ab", "start": 0, "stop": 0},)"),
       "not one character"},
      {document(R"("post_processor": {"type": "BertProcessing"},)"), "\"BertProcessing\""},
      {document(R"("post_processor": {"type": "TemplateProcessing", "single": [{"Sequence":)"
                R"( {"id": "A"}}, {"SpecialToken": {"id": "x"}}], "special_tokens": {}},)"),
       "post_processor.single[1].SpecialToken names a token"},
      {document(R"("post_processor": {"type": "TemplateProcessing", "single": [{"Sequence":)"
                R"( {"id": "A"}}, {"SpecialToken": {"id": "x"}}], "special_tokens":)"
                R"( {"x": {"ids": [77]}}},)"),
       "the id 77 is no token"},
      {document(R"("added_tokens": [{"id": 5, "content": "ab"}],)"), "contradicts model.vocab"},
      {document(R"("added_tokens": [{"id": 3, "content": "x"}],)"), "contradicts model.vocab"},
      {document(R"("added_tokens": [{"id": 30, "content": "x"}, {"id": 31, "content": "x"}],)"),
       "stands twice"},
      {document(R"("added_tokens": [{"id": 30, "content": "x"}, {"id": 30, "content": "y"}],)"),
       "the id of another"},
      {document(R"("added_tokens": [{"id": -2, "content": "x"}],)"), "added_tokens[0].id is not"},
  });
}

TEST(TokenizerJson, RefusesDeepAndWideSequences) {
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += R"({"type": "Sequence", "normalizers": [)";
  EXPECT_FALSE(Tokenizer::from_json("{\"normalizer\": " + deep));
  std::string nested = R"({"type": "NFC"})";
  for (int i = 0; i < 40; ++i) nested = R"({"type": "Sequence", "normalizers": [)" + nested + "]}";
  EXPECT_TRUE(Tokenizer::from_json(document("\"normalizer\": " + nested + ",")));
  std::string wide = R"({"type": "NFC"})";
  for (int i = 0; i < 2000; ++i) wide += R"(, {"type": "NFC"})";
  EXPECT_FALSE(Tokenizer::from_json(
      document(R"("normalizer": {"type": "Sequence", "normalizers": [)" + wide + "]},")
  ));
}

TEST(TokenizerJson, NamesTheFile) {
  const Result<Tokenizer> missing = Tokenizer::from_file("/nowhere/tokenizer.json");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("/nowhere/tokenizer.json"));
}

TEST(TokenizerJson, PassesOverTruncationAndPadding) {
  const Tokenizer tokenizer = make(document(
      R"("truncation": {"max_length": 1, "direction": "Right", "strategy": "LongestFirst",)"
      R"( "stride": 0}, "padding": {"strategy": {"Fixed": 8}},)"
  ));
  EXPECT_THAT(tokenizer.encode("abc"), ElementsAre(3, 2));
}

}  // namespace
}  // namespace millrace
