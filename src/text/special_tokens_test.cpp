#include "text/special_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "text/tokenizer.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// "<s>" is a token of the vocabulary that a text has in pieces.
constexpr std::string_view kTokenizer = R"({
  "model": {"type": "BPE", "merges": ["u p"],
            "vocab": {"u": 0, "p": 1, "up": 2, "<": 3, "s": 4, ">": 5, "<s>": 6}},
  "added_tokens": [{"id": 7, "content": "</s>", "special": true}]})";

// The ids of a text, or an error, with the folder's other files.
class SpecialTokensTest : public testing::Test {
 protected:
  Result<Tokenizer> tokenizer() const {
    const Result<FolderTokens> tokens = load_folder_tokens(folder_.path());
    if (!tokens) return tokens.error();
    return Tokenizer::from_json(kTokenizer, tokens->listed);
  }
  std::vector<TokenId> encode(std::string_view text) const {
    const Result<Tokenizer> made = tokenizer();
    EXPECT_TRUE(made) << made.error().message;
    return made ? made->encode(text) : std::vector<TokenId>();
  }
  std::string error() const {
    const Result<Tokenizer> made = tokenizer();
    return made ? "none" : made.error().message;
  }

  TestFolder folder_;
};

TEST_F(SpecialTokensTest, AreThoseOfTheOlderFileWhereTheNewerHasNone) {
  EXPECT_EQ(load_folder_tokens(folder_.path())->special.bos, std::nullopt);
  folder_.write("special_tokens_map.json", R"({
    "bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "pad_token": "x"})");
  folder_.write("tokenizer_config.json", R"({"pad_token": "</s>", "bos_token": null})");
  const Result<FolderTokens> tokens = load_folder_tokens(folder_.path());
  ASSERT_TRUE(tokens) << tokens.error().message;
  EXPECT_EQ(tokens->special.bos, "<s>");
  EXPECT_EQ(tokens->special.eos, "</s>");
  EXPECT_EQ(tokens->special.pad, "</s>");
  EXPECT_EQ(tokens->special.unk, std::nullopt);
  folder_.write("special_tokens_map.json", R"({"bos_token": 1})");
  EXPECT_EQ(
      load_folder_tokens(folder_.path()).error().message,
      "special_tokens_map.json.bos_token is neither a string nor an object with a string "
      "\"content\""
  );
}

TEST_F(SpecialTokensTest, ThatTokenizerJsonHasAreLeftAlone) {
  EXPECT_THAT(encode("up<s></s>"), ElementsAre(2, 3, 4, 5, 7));
  folder_.write("tokenizer_config.json", R"({
    "eos_token": "</s>",
    "added_tokens_decoder": {"7": {"content": "</s>", "special": true}}})");
  folder_.write("added_tokens.json", R"({"</s>": 9})");
  EXPECT_THAT(encode("up<s></s>"), ElementsAre(2, 3, 4, 5, 7));
}

// They were split in a text.
TEST_F(SpecialTokensTest, ThatOtherFilesListAreTokens) {
  folder_.write("added_tokens.json", R"({"pup": 9, "ups": 8})");
  EXPECT_THAT(encode("pupups"), ElementsAre(9, 8));
  EXPECT_FALSE(tokenizer()->is_special(9));
  folder_.write("special_tokens_map.json", R"({"additional_special_tokens": ["pup", "<s>"]})");
  EXPECT_THAT(encode("pupups<s>"), ElementsAre(9, 8, 6));
  EXPECT_TRUE(tokenizer()->is_special(9));
  EXPECT_TRUE(tokenizer()->is_special(6));

  // The newer file goes before both.
  folder_.write("tokenizer_config.json", R"({
    "bos_token": "<s>", "additional_special_tokens": [{"content": "ss"}],
    "added_tokens_decoder": {
      "20": {"content": "pup", "special": true}, "8": {"content": "pp", "lstrip": true}}})");
  EXPECT_THAT(encode("pup pp<s>ssups"), ElementsAre(20, 8, 6, 21, 2, 4));
  EXPECT_TRUE(tokenizer()->is_special(21));
  EXPECT_FALSE(tokenizer()->is_special(8));
}

TEST_F(SpecialTokensTest, AreRefusedByFileAndName) {
  folder_.write("added_tokens.json", R"({"pup": 7})");
  EXPECT_EQ(error(), "added_tokens.json gives \"pup\" the id 7, which is another token's");
  folder_.write("added_tokens.json", R"({"pup": -1})");
  EXPECT_THAT(error(), HasSubstr("added_tokens.json.pup is not an integer from 0 to"));
  folder_.write("added_tokens.json", "[]");
  EXPECT_THAT(error(), HasSubstr("added_tokens.json: expected a JSON object"));
  folder_.write("added_tokens.json", "{}");
  const auto error_of_config = [&](std::string_view config) {
    folder_.write("tokenizer_config.json", config);
    return error();
  };
  EXPECT_EQ(
      error_of_config(R"({"added_tokens_decoder": {"3": {"content": "pup"}}})"),
      "tokenizer_config.json gives \"pup\" the id 3, which is another token's"
  );
  EXPECT_EQ(
      error_of_config(R"({"added_tokens_decoder": {"x": {"content": "pup"}}})"),
      "tokenizer_config.json.added_tokens_decoder has a key that is no token id"
  );
  EXPECT_EQ(
      error_of_config(R"({"added_tokens_decoder": {"8": {"lstrip": true}}})"),
      "tokenizer_config.json.added_tokens_decoder.8 lacks \"content\""
  );
  EXPECT_THAT(
      error_of_config(R"({"additional_special_tokens": ["a", 5]})"),
      HasSubstr("tokenizer_config.json.additional_special_tokens[1] is neither a string")
  );
}

}  // namespace
}  // namespace millrace
