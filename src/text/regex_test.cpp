// What Oniguruma and PCRE2 read differently. Expected matches: Hugging Face `tokenizers` 0.23.
#include "text/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
  const Result<Regex> compiled = Regex::compile(pattern);
  if (!compiled) return {compiled.error().message};
  std::vector<std::string> found;
  for (const ByteRange range : compiled->find_all(text)) {
    found.emplace_back(text.substr(range.begin, range.end - range.begin));
  }
  return found;
}

// Ids were silently others than those the model was trained on.
TEST(Regex, FindsTheWordsOfOniguruma) {
  EXPECT_THAT(matches("\\w+", "हिन्दी, e\u0301 ²"), ElementsAre("हिन्दी", "e\u0301", "²"));
  EXPECT_THAT(matches("\\W+", "ไม่ é⁴"), ElementsAre(" ", "⁴"));
  EXPECT_THAT(matches("[\\w-]+", "ไม่-a!"), ElementsAre("ไม่-a"));
  EXPECT_THAT(matches("\\w|[\\W]", "²½"), ElementsAre("²", "½"));
  EXPECT_THAT(matches("[\\w]|[^\\W]", "²½"), IsEmpty()) << "in a class they are no words";
  EXPECT_THAT(matches("[\\W]", "a-"), ElementsAre("-"));
  EXPECT_THAT(matches("[^\\W_]+", "aि_-"), ElementsAre("aि"));
  EXPECT_THAT(matches("[\\W_]+", "aि_-b"), ElementsAre("_-"));
  EXPECT_THAT(matches("\\b.", "हि न"), ElementsAre("ह", " ", "न"));
  EXPECT_THAT(matches("\\d+(?=(?:\\d{3})*\\b)", "1\uFE0F 12"), ElementsAre("12"));
  EXPECT_THAT(matches("\\B.", "abि"), ElementsAre("b", "ि"));
  EXPECT_THAT(matches("\\s|[\\s]", "a\u180E\u3000"), ElementsAre("\u3000"));
}

TEST(Regex, FindsScriptsWithoutTheirExtensions) {
  EXPECT_THAT(matches("\\p{Han}+", "世界。、々〇ー「"), ElementsAre("世界", "々〇"));
  EXPECT_THAT(matches("[\\p{Latin}]+", "aªK\u0363"), ElementsAre("aªK"));
  EXPECT_THAT(matches("\\p{^Han}+|\\P{Han}", "世、b"), ElementsAre("、b"));
  EXPECT_THAT(matches("[\\p{L}\\p{N}]+\\p{Any}\\p{Lu}", "a1-B"), ElementsAre("a1-B"));
}

TEST(Regex, FindsPosixSetsAsOniguruma) {
  EXPECT_THAT(matches("[[:alnum:]]+", "ไม1²"), ElementsAre("ไม1"));
  EXPECT_THAT(matches("[[:word:]]+", "हिन्दी "), ElementsAre("हिन्दी"));
  EXPECT_THAT(matches("[[:punct:]]+", "$+a´"), ElementsAre("$+", "´"));
  EXPECT_THAT(matches("[[:lower:]x[:^digit:]]+", "aªⅷ1"), ElementsAre("aªⅷ"));
}

TEST(Regex, ReadsSyntaxAsOniguruma) {
  EXPECT_THAT(matches("^a{,2}$", "aa\na{,2}"), ElementsAre("aa"));
  EXPECT_THAT(matches("\\v", "\x0B\n"), ElementsAre("\x0B"));
  EXPECT_THAT(matches("a(?#\\))+", "aa"), ElementsAre("aa"));
  EXPECT_THAT(matches("a&&b|[a&]", "a&&b&"), ElementsAre("a&&b", "&"));
  EXPECT_THAT(matches("[]a]+|[^]b]", "a]bc"), ElementsAre("a]", "c"));
  EXPECT_THAT(matches("\\x{61}+\\[[\\[{}]+", "aa[[{}"), ElementsAre("aa[[{}"));
  EXPECT_THAT(matches("a{,}|\\cA", "a{,}\x01"), ElementsAre("a{,}", "\x01"));
  EXPECT_THAT(matches("(?i:'S|x)y?+", "'sX"), ElementsAre("'s", "X"));
}

TEST(Regex, RefusesByNameWhatItWouldReadOtherwise) {
  const std::pair<const char*, const char*> refused[] = {
      {" ?[^(\\s|[.,!?])]+", "a class inside of a class"},  // Bloom's
      {"[a-z&&[^b]]", "`&&`"},
      {"\\h", "`\\h`"},
      {"[\\H]", "`\\H`"},
      {"\\V", "`\\V`"},
      {"\\Qa.b\\E", "`\\Q`"},
      {"(a)\\g1", "`\\g`"},
      {"\\pL", "`\\p` without braces"},
      {"[[:print:]]", "`[:print:]`"},
      {"[[:^alnum:]]", "`[:^alnum:]`"},
      {"a{1,2}+b", "`{1,2}+`"},
      {"a{2}?", "`{2}?`"},
      {"(?m:.)", "`(?m`"},
      {"(?-m)^a", "`(?-m`"},
      {"(?U)a+", "`(?U`"},
      {"(?J)a", "`(?J`"},
      {"(?|a|b)", "`(?|`"},
      {"(?R)?a", "`(?R`"},
      {"(*UTF)a", "`(*`"},
      {"(?x)a#(", "`(?x`"},
      {"a(?i)b|c", "an option in the middle"},
  };
  for (const auto& [pattern, name] : refused) {
    const Result<Regex> compiled = Regex::compile(pattern);
    ASSERT_FALSE(compiled) << pattern;
    EXPECT_EQ(compiled.error().code, ErrorCode::kUnsupported) << pattern;
    EXPECT_THAT(compiled.error().message, HasSubstr(name)) << pattern;
  }
}

TEST(Regex, LeavesWhatIsNoRegularExpressionToTheEngine) {
  for (const char* pattern :
       {"*a",
        "(",
        "(?",
        "[",
        "[^",
        "[a",
        "[[:alpha:]",
        "[z-a]",
        "a{2,1}",
        "\\",
        "[\\",
        "\\p{Han",
        "\\p{",
        "\\p",
        "\\x{41",
        "\\c"}) {
    const Result<Regex> compiled = Regex::compile(pattern);
    ASSERT_FALSE(compiled) << pattern;
    EXPECT_FALSE(compiled.error().message.empty());
  }
  EXPECT_THAT(matches("a(?#", "a"), ElementsAre("a"));
  EXPECT_FALSE(Regex::compile(std::string(100'000, 'a')));
  EXPECT_FALSE(Regex::compile(std::string(200, '(') + std::string(200, ')')));
}

TEST(Regex, EndsTheSearchAtItsLimits) {
  EXPECT_THAT(matches("(a+)+b", std::string(40, 'a')), IsEmpty());
}

TEST(Regex, CountsEmptyMatchesOnce) {
  const Result<Regex> any = Regex::compile("x*");
  ASSERT_TRUE(any);
  const std::vector<ByteRange> expected = {{0, 0}, {1, 3}, {4, 4}};
  EXPECT_EQ(any->find_all("axxb"), expected);
}

}  // namespace
}  // namespace millrace
