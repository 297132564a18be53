#include "server/generation_fields.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

// The words "a", "b", " a", " b" and single letters as byte-level tokens.
Tokenizer small_tokenizer() {
  Result<Tokenizer> made = Tokenizer::from_json(R"({
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġ": 2, "Ġa": 3, "Ġb": 4, "ab": 5},
              "merges": ["Ġ a", "Ġ b", "a b"]},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "decoder": {"type": "ByteLevel"}
  })");
  CHECK(made.ok(), made.error().message);
  return *std::move(made);
}

Result<GenerationFields> read(std::string_view text) {
  static const Tokenizer tokenizer = small_tokenizer();
  const Result<json::value> value = parse_json(text);
  CHECK(value.ok(), value.error().message);
  GenerationFields fields;
  const Result<void> done = read_generation_fields(value->as_object(), tokenizer, fields);
  if (!done) return done.error();
  return fields;
}

std::string refused_path(std::string_view text) {
  const Result<GenerationFields> fields = read(text);
  return fields ? "nothing" : fields.error().where;
}

TEST(GenerationFields, ReadsEachField) {
  const Result<GenerationFields> fields = read(R"({
    "temperature": 0.5, "top_k": 3, "top_p": 1, "min_p": 0.25, "seed": -1,
    "presence_penalty": 1, "frequency_penalty": -1, "repetition_penalty": 2,
    "logit_bias": {"5": -100}, "allowed_token_ids": [1, 2], "max_tokens": 9, "min_tokens": 2,
    "ignore_eos": true, "stop_token_ids": [4], "stop": ["x", "y"], "n": 2, "logprobs": 3,
    "prompt_logprobs": 1, "echo": true, "priority": -7, "timeout_s": 1.5,
    "include_stop_str_in_output": true, "skip_special_tokens": false
  })");
  ASSERT_TRUE(fields) << fields.error().message;
  const SamplingParams& sampling = fields->sampling;
  EXPECT_EQ(sampling.temperature, 0.5F);
  EXPECT_EQ(sampling.top_k, 3);
  EXPECT_EQ(sampling.min_p, 0.25F);
  EXPECT_EQ(sampling.seed, ~uint64_t{0});
  EXPECT_EQ(sampling.presence_penalty, 1.0F);
  EXPECT_EQ(sampling.frequency_penalty, -1.0F);
  EXPECT_EQ(sampling.repetition_penalty, 2.0F);
  EXPECT_EQ(sampling.logit_bias, (std::vector<std::pair<TokenId, float>>{{5, -100.0F}}));
  EXPECT_EQ(sampling.allowed_token_ids, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(sampling.max_tokens, 9);
  EXPECT_EQ(sampling.min_tokens, 2);
  EXPECT_TRUE(sampling.ignore_eos);
  EXPECT_EQ(sampling.stop_token_ids, std::vector<TokenId>{4});
  EXPECT_EQ(sampling.n, 2);
  EXPECT_EQ(sampling.logprobs, 3);
  EXPECT_EQ(sampling.prompt_logprobs, 1);
  EXPECT_EQ(fields->stop, (std::vector<std::string>{"x", "y"}));
  EXPECT_TRUE(fields->echo);
  EXPECT_EQ(fields->priority, -7);
  EXPECT_EQ(fields->timeout_s, 1.5);
  EXPECT_TRUE(fields->include_stop_str_in_output);
  EXPECT_FALSE(fields->skip_special_tokens);
}

TEST(GenerationFields, NullLeavesTheDefault) {
  const Result<GenerationFields> fields =
      read(R"({"temperature": null, "stop": null, "logprobs": null, "seed": null})");
  ASSERT_TRUE(fields);
  EXPECT_EQ(fields->sampling.temperature, SamplingParams().temperature);
  EXPECT_FALSE(fields->sampling.logprobs);
}

// `generate` refused every prompt of a model whose author states more than requests may.
TEST(GenerationFields, AnAuthorsTemperatureIsAtMostThatOfRequests) {
  SamplingParams sampling;
  sampling.temperature = 0.0F;
  apply_defaults({.top_k = 7}, sampling);
  EXPECT_EQ(sampling.temperature, 0.0F);
  EXPECT_EQ(sampling.top_k, 7);
  apply_defaults({.temperature = 3.0F}, sampling);
  EXPECT_EQ(sampling.temperature, 2.0F);
  EXPECT_TRUE(validate(sampling, {.vocab_size = 100}));
}

TEST(GenerationFields, LogprobsIsACountOrASwitch) {
  EXPECT_EQ(read(R"({"logprobs": true})")->sampling.logprobs, 0);
  EXPECT_EQ(read(R"({"logprobs": true, "top_logprobs": 4})")->sampling.logprobs, 4);
  EXPECT_FALSE(read(R"({"logprobs": false, "top_logprobs": 4})")->sampling.logprobs);
}

TEST(GenerationFields, BadWordsAreTokensWithAndWithoutASpace) {
  const Result<GenerationFields> fields = read(R"({"bad_words": [" b", "ab"]})");
  ASSERT_TRUE(fields);
  // " ab" takes two tokens where "ab" takes one, so only the bare word counts.
  EXPECT_EQ(fields->sampling.bad_words, (std::vector<std::vector<TokenId>>{{4}, {1}, {5}}));
}

// Their number was bounded after each had become two.
TEST(GenerationFields, TakesAsManyBadWordsAsItSays) {
  const auto with = [](size_t count) {
    return json::serialize(json::object{{"bad_words", json::array(count, "b")}});
  };
  const Result<GenerationFields> fields = read(with(1024));
  ASSERT_TRUE(fields);
  EXPECT_EQ(fields->sampling.bad_words.size(), 2048U);
  EXPECT_TRUE(validate(fields->sampling, {.vocab_size = 100}));
  EXPECT_EQ(refused_path(with(1025)), "bad_words");
  EXPECT_EQ(
      refused_path(R"({"bad_words": ["b", ")" + std::string(65, 'b') + R"("]})"), "bad_words[1]"
  );
}

TEST(GenerationFields, RefusesAWrongTypeByItsPath) {
  EXPECT_EQ(refused_path(R"({"temperature": "hot"})"), "temperature");
  EXPECT_EQ(refused_path(R"({"top_k": 1.5})"), "top_k");
  EXPECT_EQ(refused_path(R"({"max_tokens": 4294967296})"), "max_tokens");
  EXPECT_EQ(refused_path(R"({"n": true})"), "n");
  EXPECT_EQ(refused_path(R"({"seed": 1.0})"), "seed");
  EXPECT_EQ(refused_path(R"({"ignore_eos": 1})"), "ignore_eos");
  EXPECT_EQ(refused_path(R"({"stop": ["a", 5]})"), "stop[1]");
  EXPECT_EQ(refused_path(R"({"stop": [""]})"), "stop[0]");
  EXPECT_EQ(refused_path(R"({"stop_token_ids": [1, "x"]})"), "stop_token_ids[1]");
  EXPECT_EQ(refused_path(R"({"logit_bias": {"x": 1}})"), "logit_bias.x");
  EXPECT_EQ(refused_path(R"({"logit_bias": {"7": "much"}})"), "logit_bias.7");
  EXPECT_EQ(refused_path(R"({"logit_bias": [1]})"), "logit_bias");
  EXPECT_EQ(refused_path(R"({"bad_words": "a"})"), "bad_words");
  EXPECT_EQ(refused_path(R"({"bad_words": ["  "]})"), "bad_words[0]");
  EXPECT_EQ(refused_path(R"({"timeout_s": 0})"), "timeout_s");
}

TEST(GenerationFields, BoundsTheStopStrings) {
  json::array stops(33, "x");
  EXPECT_EQ(refused_path(json::serialize(json::object{{"stop", stops}})), "stop");
  EXPECT_EQ(refused_path("{\"stop\": \"" + std::string(5000, 'x') + "\"}"), "stop");
}

TEST(GenerationFields, KnowsItsNames) {
  EXPECT_TRUE(is_generation_field("temperature"));
  EXPECT_FALSE(is_generation_field("temperatur"));
  EXPECT_FALSE(is_generation_field("prompt"));
}

}  // namespace
}  // namespace millrace
