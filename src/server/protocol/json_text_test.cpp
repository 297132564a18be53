#include "server/protocol/json_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/json.h"
#include "base/rng.h"
#include "text/unicode.h"

namespace millrace {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  append_json_escaped(text, out);
  return out;
}

// What a parser reads back.
std::string read_back(std::string_view text) {
  std::string out;
  append_json_string(text, out);
  const Result<json::value> value = parse_json(out);
  EXPECT_TRUE(value.ok()) << out;
  return value.ok() ? std::string(value->as_string()) : std::string();
}

std::string lossy(std::string_view text) {
  std::string out;
  append_utf8_lossy(text, true, out);
  return out;
}

TEST(JsonText, EscapesWhatJsonCannotHoldAndNothingElse) {
  EXPECT_EQ(escaped(""), "");
  EXPECT_EQ(escaped("plain text, 100 % / as it is\x7F"), "plain text, 100 % / as it is\x7F");
  EXPECT_EQ(escaped("\"\\\b\f\n\r\t"), R"(\"\\\b\f\n\r\t)");
  EXPECT_EQ(escaped(std::string_view("\0\x1B\x1F", 3)), R"(\u0000\u001b\u001f)");
  EXPECT_EQ(
      escaped("h\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"), "h\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"
  );
}

TEST(JsonText, EachByteAtEachPlaceOfAWordIsReadBack) {
  for (int byte = 0; byte < 256; ++byte) {
    for (size_t size = 1; size <= 18; ++size) {
      for (size_t place = 0; place < size; ++place) {
        std::string text(size, 'a');
        text[place] = static_cast<char>(byte);
        ASSERT_EQ(read_back(text), lossy(text)) << byte << " at " << place << " of " << size;
      }
    }
  }
}

TEST(JsonText, ReplacesEachIllFormedPartByOneReplacementCharacter) {
  EXPECT_EQ(escaped("a\xFFz"), "a\xEF\xBF\xBDz");
  EXPECT_EQ(escaped("\xF0\x9F\x98"), "\xEF\xBF\xBD");
  EXPECT_EQ(escaped("\xF0\x9F\x98z\xC3"), "\xEF\xBF\xBDz\xEF\xBF\xBD");
  EXPECT_EQ(escaped("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // a surrogate
  EXPECT_EQ(escaped("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD");                  // overlong
}

TEST(JsonText, RandomBytesAreReadBackAsTheLossyTextTheyAre) {
  constexpr std::string_view kPool =
      "ab \"\\\n\x01\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xFF\xED\xA0";
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    std::string text;
    Rng random(seed);
    const uint64_t size = random.below(24);
    for (uint64_t i = 0; i < size; ++i) text += kPool[random.below(kPool.size())];
    ASSERT_EQ(read_back(text), lossy(text)) << "seed " << seed;
  }
}

TEST(JsonText, WritesIntegersOfAnySize) {
  std::string out;
  append_json_integer(0, out);
  out += ' ';
  append_json_integer(std::numeric_limits<int64_t>::min(), out);
  out += ' ';
  append_json_integer(std::numeric_limits<int64_t>::max(), out);
  EXPECT_EQ(out, "0 -9223372036854775808 9223372036854775807");
}

template <class Number>
std::string number(Number value) {
  std::string out;
  append_json_number(value, out);
  return out;
}

TEST(JsonText, WritesNumbersInTheFewestDigits) {
  EXPECT_EQ(number(0.1F), "0.1");
  EXPECT_EQ(number(-1.5F), "-1.5");
  EXPECT_EQ(number(0.1), "0.1");
  EXPECT_EQ(number(std::numeric_limits<float>::infinity()), "null");
  EXPECT_EQ(number(-std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(number(std::numeric_limits<double>::quiet_NaN()), "null");
}

TEST(JsonText, AFloatIsReadBackAsToJsonNumberSays) {
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    const auto bits = static_cast<uint32_t>(random_bits(seed, 0));
    float value = 0.0F;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    const Result<json::value> read = parse_json(number(value));
    ASSERT_TRUE(read.ok()) << number(value);
    ASSERT_EQ(read->to_number<double>(), to_json_number(value)) << number(value);
  }
}

TEST(JsonText, ALogprobIsAlwaysANumber) {
  const auto logprob = [](float value) {
    std::string out;
    append_json_logprob(value, out);
    return out;
  };
  EXPECT_EQ(logprob(-0.25F), "-0.25");
  EXPECT_EQ(logprob(0.0F), "0");
  EXPECT_EQ(logprob(-std::numeric_limits<float>::infinity()), "-9999");
  EXPECT_EQ(logprob(-20000.0F), "-9999");
  EXPECT_EQ(logprob(std::numeric_limits<float>::quiet_NaN()), "-9999");
}

}  // namespace
}  // namespace millrace
