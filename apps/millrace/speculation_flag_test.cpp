#include "speculation_flag.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST(SpeculationFlag, TakesTheKeysOfVllm) {
  const auto parsed = parse_speculative_config(
      R"({"method":"ngram","num_speculative_tokens":5,"prompt_lookup_max":4,"prompt_lookup_min":2})"
  );
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(
      *parsed,
      (NgramSpeculation{.num_speculative_tokens = 5, .prompt_lookup_max = 4, .prompt_lookup_min = 2}
      )
  );
}

TEST(SpeculationFlag, ALookupThatIsLeftOutIsTheOtherOne) {
  const auto lookups = [](const std::string& more) {
    const auto parsed =
        parse_speculative_config(R"({"method":"ngram","num_speculative_tokens":3)" + more + "}");
    return parsed ? std::pair(parsed->prompt_lookup_min, parsed->prompt_lookup_max)
                  : std::pair(0, 0);
  };
  EXPECT_EQ(lookups(""), std::pair(5, 5));
  EXPECT_EQ(lookups(R"(,"prompt_lookup_max":3)"), std::pair(3, 3));
  EXPECT_EQ(lookups(R"(,"prompt_lookup_min":7)"), std::pair(7, 7));
  EXPECT_EQ(lookups(R"(,"prompt_lookup_min":1,"prompt_lookup_max":16)"), std::pair(1, 16));
}

TEST(SpeculationFlag, RefusesByTheKey) {
  struct Case {
    const char* text;
    const char* where;
    const char* message;
  };
  const Case cases[] = {
      {"ngram", "", "byte"},
      {"[5]", "", "must be a JSON object with method"},
      {"{}", "method", "method is missing"},
      {R"({"method":"eagle","num_speculative_tokens":5})",
       "method",
       "must be \"ngram\", got \"eagle\""},
      {R"({"method":null,"num_speculative_tokens":5})", "method", "got null"},
      {R"({"method":"ngram"})", "num_speculative_tokens", "missing"},
      {R"({"method":"ngram","num_speculative_tokens":"5"})",
       "num_speculative_tokens",
       "must be an integer, got \"5\""},
      {R"({"method":"ngram","num_speculative_tokens":5.5})",
       "num_speculative_tokens",
       "must be an integer, got 5.5"},
      {R"({"method":"ngram","num_speculative_tokens":99999999999})",
       "num_speculative_tokens",
       "must be an integer"},
      {R"({"method":"ngram","num_speculative_tokens":0})",
       "num_speculative_tokens",
       "must be 1 to 32, got 0"},
      {R"({"method":"ngram","num_speculative_tokens":33})",
       "num_speculative_tokens",
       "must be 1 to 32, got 33"},
      {R"({"method":"ngram","num_speculative_tokens":5,"prompt_lookup_max":17})",
       "prompt_lookup_max",
       "must be 1 to 16, got 17"},
      {R"({"method":"ngram","num_speculative_tokens":5,"prompt_lookup_min":-1})",
       "prompt_lookup_min",
       "must be 1 to 16, got -1"},
      {R"({"method":"ngram","num_speculative_tokens":5,"prompt_lookup_min":3,"prompt_lookup_max":2})",
       "prompt_lookup_min",
       "(3) must not be above prompt_lookup_max (2)"},
      {R"({"method":"ngram","num_speculative_tokens":5,"draft_model":"x"})",
       "draft_model",
       "\"draft_model\" is not known; the keys are method"},
      {R"({"method":"ngram","num_speculative_tokens":5,"num_speculative_tokens":6})", "", "twice"},
  };
  for (const Case& wrong : cases) {
    const auto parsed = parse_speculative_config(wrong.text);
    ASSERT_FALSE(parsed.ok()) << wrong.text;
    EXPECT_EQ(parsed.error().where, wrong.where) << wrong.text;
    EXPECT_THAT(parsed.error().message, HasSubstr(wrong.message));
  }
}

TEST(SpeculationFlag, LeavesItOffUnlessItIsGiven) {
  std::optional<NgramSpeculation> speculation;
  CommandLine line("test", "a test");
  add_speculation_flag(line, speculation);
  EXPECT_EQ(line.parse({}), std::nullopt);
  EXPECT_EQ(speculation, std::nullopt);
  EXPECT_EQ(
      line.parse({R"(--speculative_config={"method":"ngram","num_speculative_tokens":2})"}),
      std::nullopt
  );
  ASSERT_TRUE(speculation.has_value());
  EXPECT_EQ(speculation->num_speculative_tokens, 2);
}

}  // namespace
}  // namespace millrace
