#include "model/generation_defaults.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

Result<GenerationDefaults> parse(const std::string& text) {
  return parse_generation_defaults(json::parse(text).as_object(), 1000);
}

TEST(GenerationDefaults, ReadsWhatTheFileStates) {
  const Result<GenerationDefaults> defaults = parse(R"({"bos_token_id": 1, "do_sample": true,
      "eos_token_id": [2, 3], "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.05,
      "repetition_penalty": 1.05, "max_new_tokens": 512, "transformers_version": "4.51.0"})");
  ASSERT_TRUE(defaults) << defaults.error().message;
  EXPECT_EQ(defaults->temperature, 0.6F);
  EXPECT_EQ(defaults->top_k, 20);
  EXPECT_EQ(defaults->top_p, 0.95F);
  EXPECT_EQ(defaults->min_p, 0.05F);
  EXPECT_EQ(defaults->repetition_penalty, 1.05F);
  EXPECT_EQ(defaults->max_new_tokens, 512);
  EXPECT_EQ(defaults->eos_token_ids, (std::vector<TokenId>{2, 3}));
  EXPECT_EQ(defaults->bos_token_id, 1);
}

TEST(GenerationDefaults, StateNothingWhereTheFileDoesNot) {
  const Result<GenerationDefaults> defaults = parse(R"({"do_sample": false, "top_p": null})");
  ASSERT_TRUE(defaults);
  EXPECT_FALSE(defaults->temperature);
  EXPECT_FALSE(defaults->top_k);
  EXPECT_FALSE(defaults->top_p);
  EXPECT_FALSE(defaults->max_new_tokens);
  EXPECT_TRUE(defaults->eos_token_ids.empty());
  EXPECT_FALSE(defaults->bos_token_id);
}

TEST(GenerationDefaults, NamesTheFieldThatIsWrong) {
  EXPECT_EQ(parse(R"({"temperature": -0.1})").error().where, "temperature");
  EXPECT_EQ(parse(R"({"temperature": "hot"})").error().where, "temperature");
  EXPECT_EQ(parse(R"({"top_k": -2})").error().where, "top_k");
  EXPECT_EQ(parse(R"({"top_k": 2147483648})").error().where, "top_k");
  EXPECT_EQ(parse(R"({"top_p": 0})").error().where, "top_p");
  EXPECT_EQ(parse(R"({"top_p": 1.1})").error().where, "top_p");
  EXPECT_EQ(parse(R"({"min_p": 2})").error().where, "min_p");
  EXPECT_EQ(parse(R"({"repetition_penalty": 0})").error().where, "repetition_penalty");
  EXPECT_EQ(parse(R"({"max_new_tokens": 0})").error().where, "max_new_tokens");
  EXPECT_EQ(parse(R"({"eos_token_id": 1000})").error().where, "eos_token_id");
}

}  // namespace
}  // namespace millrace
