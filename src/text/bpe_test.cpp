#include "text/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Owns the strings that a BpeConfig borrows.
struct Model {
  std::vector<std::string> tokens;
  std::vector<std::pair<std::string, std::string>> merges;
  BpeConfig config() const {
    BpeConfig made;
    for (size_t i = 0; i < tokens.size(); ++i) {
      made.tokens.push_back({tokens[i], static_cast<TokenId>(i)});
    }
    for (size_t i = 0; i < merges.size(); ++i) {
      made.merges.push_back({merges[i].first, merges[i].second, static_cast<uint32_t>(i)});
    }
    return made;
  }
};

std::vector<TokenId> encode(const Bpe& bpe, std::string_view word) {
  BpeScratch scratch;
  std::vector<TokenId> ids;
  bpe.encode_word(word, scratch, ids);
  return ids;
}

// Section 3.2 of the paper, as slowly as it is written.
std::vector<std::string> merge_slowly(const Model& model, std::string_view word) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  while (true) {
    size_t best_rank = model.merges.size();
    size_t best_place = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      for (size_t rank = 0; rank < best_rank; ++rank) {
        if (model.merges[rank] != std::pair(parts[i], parts[i + 1])) continue;
        best_rank = rank;
        best_place = i;
      }
    }
    if (best_rank == model.merges.size()) return parts;
    parts[best_place] += parts[best_place + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best_place) + 1);
  }
}

Model random_model(Rng& rng) {
  Model model;
  for (const char c : std::string_view("abcd")) model.tokens.emplace_back(1, c);
  for (int i = 0; i < 30; ++i) {
    const std::string left = model.tokens[rng.below(model.tokens.size())];
    const std::string right = model.tokens[rng.below(model.tokens.size())];
    const std::string whole = left + right;
    const bool is_new =
        std::find(model.tokens.begin(), model.tokens.end(), whole) == model.tokens.end();
    const std::pair merge{left, right};
    if (std::find(model.merges.begin(), model.merges.end(), merge) != model.merges.end()) continue;
    if (is_new) model.tokens.push_back(whole);
    model.merges.push_back(merge);
  }
  return model;
}

TEST(Bpe, MergesAsThePaperDoesInShortAndLongWords) {
  Rng rng(1);
  for (int round = 0; round < 60; ++round) {
    const Model model = random_model(rng);
    const Result<Bpe> bpe = Bpe::create(model.config());
    ASSERT_TRUE(bpe) << bpe.error().message;
    for (int i = 0; i < 20; ++i) {
      std::string word;
      const uint64_t length = 1 + rng.below(i < 15 ? 30 : 200);
      for (uint64_t k = 0; k < length; ++k) word.push_back("abcd"[rng.below(4)]);
      std::vector<std::string> parts;
      for (const TokenId id : encode(*bpe, word)) parts.emplace_back(*bpe->text(id));
      ASSERT_EQ(parts, merge_slowly(model, word)) << word;
    }
  }
}

TEST(Bpe, MergesEqualRanksFromLeftToRight) {
  const Model model{{"a", "aa"}, {{"a", "a"}}};
  const Result<Bpe> bpe = Bpe::create(model.config());
  EXPECT_THAT(encode(*bpe, "aaa"), ElementsAre(1, 0));
  const std::vector<TokenId> many = encode(*bpe, std::string(101, 'a'));
  EXPECT_EQ(many.size(), 51U);
  EXPECT_EQ(many.back(), 0);
}

TEST(Bpe, TakesAMegabyteInOneWord) {
  const Model model{{"a", "aa", "aaaa"}, {{"a", "a"}, {"aa", "aa"}}};
  const Result<Bpe> bpe = Bpe::create(model.config());
  EXPECT_EQ(encode(*bpe, std::string(1 << 20, 'a')).size(), size_t{1} << 18);
}

TEST(Bpe, LeavesWordsThatHaveTooManyTokensForCertain) {
  const Model model{{"a", "aa", "aaaa"}, {{"a", "a"}, {"aa", "aa"}}};
  const Result<Bpe> bpe = Bpe::create(model.config());
  BpeScratch scratch;
  std::vector<TokenId> ids = {7};
  EXPECT_FALSE(bpe->encode_word(std::string(1000, 'a'), scratch, ids, 249));
  EXPECT_THAT(ids, ElementsAre(7));
  EXPECT_TRUE(bpe->encode_word(std::string(1000, 'a'), scratch, ids, 250));
  EXPECT_EQ(ids.size(), 251U);
  // 250 symbols could be 63 tokens, and are 250.
  EXPECT_TRUE(Bpe::create(Model{{"a", "aaaa"}, {}}.config())
                  ->encode_word(std::string(250, 'a'), scratch, ids, 63));
}

TEST(Bpe, WritesUnknownCharactersAsTheUnknownTokenOrBytes) {
  Model model{{"<unk>", "a", "<0xC3>", "<0xA9>"}, {}};
  BpeConfig config = model.config();
  EXPECT_THAT(encode(*Bpe::create(config), "xay"), ElementsAre(1));  // dropped
  config.unknown_token = "<unk>";
  EXPECT_THAT(encode(*Bpe::create(config), "xxay"), ElementsAre(0, 0, 1, 0));
  config.fuses_unknown = true;
  EXPECT_THAT(encode(*Bpe::create(config), "xxay"), ElementsAre(0, 1, 0));
  config.has_byte_fallback = true;
  EXPECT_THAT(encode(*Bpe::create(config), "a\xC3\xA9x"), ElementsAre(1, 2, 3, 0));
}

TEST(Bpe, TakesWholeWordsWhereItIgnoresMerges) {
  Model model{{"a", "b", "ab"}, {}};
  BpeConfig config = model.config();
  EXPECT_THAT(encode(*Bpe::create(config), "ab"), ElementsAre(0, 1));
  config.ignores_merges = true;
  EXPECT_THAT(encode(*Bpe::create(config), "ab"), ElementsAre(2));
  EXPECT_THAT(encode(*Bpe::create(config), "aba"), ElementsAre(0, 1, 0));
}

TEST(Bpe, RefusesImpossibleVocabulariesWithTheirTokens) {
  const auto message_of = [](const BpeConfig& config) {
    const Result<Bpe> bpe = Bpe::create(config);
    return bpe ? std::string("accepted") : bpe.error().message;
  };
  BpeConfig config;
  config.tokens = {{"a", 0}, {"b", 0}};
  EXPECT_THAT(message_of(config), HasSubstr("\"a\" and \"b\" have the same id 0"));
  config.tokens = {{"a", -1}};
  EXPECT_THAT(message_of(config), HasSubstr("has the id -1"));
  config.tokens = {{"a", kTokenIdMax + 1}};
  EXPECT_THAT(message_of(config), HasSubstr("has the id"));
  config.tokens = {{"a", 0}, {"b", 1}};
  config.merges = {{"a", "c", 0}};
  EXPECT_THAT(message_of(config), HasSubstr("takes \"c\""));
  config.merges = {{"a", "b", 0}};
  EXPECT_THAT(message_of(config), HasSubstr("makes \"ab\""));
  config.tokens = {{"a", 0}, {"", 1}};
  config.merges = {{"a", "", 0}};
  EXPECT_THAT(message_of(config), HasSubstr("one of its own halves"));
  config.merges = {};
  config.unknown_token = "<unk>";
  EXPECT_THAT(message_of(config), HasSubstr("unknown token \"<unk>\""));
}

TEST(Bpe, AllowsGapsBetweenIds) {
  BpeConfig config;
  config.tokens = {{"a", 5}, {"b", 1000}};
  const Result<Bpe> bpe = Bpe::create(config);
  ASSERT_TRUE(bpe);
  EXPECT_THAT(encode(*bpe, "ab"), ElementsAre(5, 1000));
  EXPECT_EQ(bpe->text(6), std::nullopt);
  EXPECT_EQ(bpe->text(-1), std::nullopt);
  EXPECT_EQ(bpe->text(1001), std::nullopt);
  EXPECT_EQ(bpe->id_end(), 1001U);
}

TEST(StringIdMap, FindsWhatWasInsertedAndNothingElse) {
  StringIdMap map;
  EXPECT_EQ(map.find("x"), std::nullopt);
  std::map<std::string, TokenId> expected;
  Rng rng(3);
  for (TokenId id = 0; id < 5000; ++id) {
    std::string key(rng.below(20), 'x');
    for (char& c : key) c = static_cast<char>(rng.below(4));
    EXPECT_EQ(map.insert(key, id), expected.emplace(key, id).second);
  }
  EXPECT_EQ(map.size(), expected.size());
  for (const auto& [key, id] : expected) EXPECT_EQ(map.find(key), id);
  EXPECT_EQ(map.find("not there"), std::nullopt);
}

}  // namespace
}  // namespace millrace
