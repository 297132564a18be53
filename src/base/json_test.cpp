#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>

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
