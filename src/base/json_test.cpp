#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

namespace millrace {
namespace {

TEST(Json, ParsesOneValue) {
  const Result<json::value> value = parse_json(R"( {"a": [1, 2.5, "x"]} )");
  ASSERT_TRUE(value);
  EXPECT_EQ(value->at("a").as_array().size(), 3U);
}

TEST(Json, RefusesDuplicateKeysByName) {
  const Result<json::value> value = parse_json(R"({"a": {"key": 1, "key": 2}})");
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().message, "the key \"key\" stands twice in one object");
}

TEST(Json, TakesEqualKeysInDifferentObjects) {
  EXPECT_TRUE(parse_json(R"([{"key": 1}, {"key": {"key": 2}}])"));
}

TEST(Json, NamesTheByteOfASyntaxError) {
  const Result<json::value> value = parse_json(R"({"a": 1, })");
  ASSERT_FALSE(value);
  EXPECT_NE(value.error().message.find("at byte 9"), std::string::npos) << value.error().message;
}

TEST(Json, RefusesTextAfterTheValue) {
  EXPECT_FALSE(parse_json("{} {}"));
  EXPECT_FALSE(parse_json("1 2"));
  EXPECT_TRUE(parse_json("1 \n"));
}

TEST(Json, RefusesTruncatedAndEmptyText) {
  EXPECT_FALSE(parse_json(""));
  EXPECT_FALSE(parse_json("{"));
  EXPECT_FALSE(parse_json("[1,"));
  EXPECT_FALSE(parse_json("\"abc"));
}

TEST(Json, ReadsNumbersAsExactlyAsStrtod) {
  // Each of these came out one unit off from Boost.JSON 1.81 alone.
  for (const std::string text :
       {"521034.25751423556", "941361.6887388323", "-130475.36607853067", "990108.4679835059"}) {
    const Result<json::value> value = parse_json("[" + text + ", 1e2, -0.0, 1.5e-3]");
    ASSERT_TRUE(value);
    EXPECT_EQ(value->at(0).get_double(), std::strtod(text.c_str(), nullptr)) << text;
    EXPECT_EQ(value->at(1).get_double(), 100.0);
    EXPECT_TRUE(std::signbit(value->at(2).get_double()));
    EXPECT_EQ(value->at(3).get_double(), 0.0015);
  }
}

TEST(Json, KeepsTheKindsOfValues) {
  const Result<json::value> value = parse_json(
      R"({"a": [1, -2, 18446744073709551615, 1.0, true, false, null, "t\u00e9\n", {}, []], "b": {"c": 1e400}})"
  );
  ASSERT_TRUE(value);
  const json::array& items = value->at("a").get_array();
  EXPECT_EQ(items[0], json::value(int64_t{1}));
  EXPECT_EQ(items[2].get_uint64(), UINT64_MAX);
  EXPECT_TRUE(items[3].is_double());
  EXPECT_TRUE(items[4].get_bool());
  EXPECT_TRUE(items[6].is_null());
  EXPECT_EQ(items[7].get_string(), "t\u00e9\n");
  EXPECT_TRUE(items[8].get_object().empty());
  EXPECT_TRUE(items[9].get_array().empty());
  EXPECT_TRUE(value->at("b").at("c").is_double());
}

TEST(Json, BoundsTheDepth) {
  const std::string deep(101, '[');
  EXPECT_FALSE(parse_json(deep + std::string(101, ']')));
  const std::string within(99, '[');
  EXPECT_TRUE(parse_json(within + std::string(99, ']')));
}

TEST(Json, WritesNumbersAsPeopleDo) {
  const json::value value = {
      {"a", 0.1}, {"b", {1, 175.917343, 1e300}}, {"c", -1.0}, {"d", nullptr}};
  EXPECT_EQ(to_json_text(value), R"({"a": 0.1, "b": [1, 175.917343, 1e+300], "c": -1, "d": null})");
  EXPECT_EQ(to_json_text(to_json_number(-0.1F)), "-0.1");
  EXPECT_EQ(to_json_text(std::nan("")), "null");
}

TEST(Json, WritesStringsThatParseBack) {
  const std::string hard("\"\\\n\x01\xC3\xA9\0[{", 9);
  const json::value value = {{hard, json::array{hard, "", json::array(), json::object()}}};
  const Result<json::value> again = parse_json(to_json_text(value));
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, value);
}

}  // namespace
}  // namespace millrace
