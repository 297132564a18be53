// Bodies that are no JSON, or no JSON that a request can be: every endpoint answers each of them
// with one error and reads the next.
#include <gtest/gtest.h>

#include <initializer_list>
#include <set>

#include "server/protocol/request_cases.h"

namespace millrace {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;

constexpr Endpoint kC = Endpoint::kCompletions;

const std::string kGoodBody =
    R"({"model": "tiny", "prompt": ["a \u00e9\ud83d\ude00 b", "c\n\"d\""], "max_tokens": 12, )"
    R"("temperature": 0.5e0, "stop": ["x", "yz"], "stream": true, "logit_bias": {"5": -1.25}, )"
    R"("stream_options": {"include_usage": true}, "seed": -7, "user": null})";

// What stands where a value should.
const std::string kBadValues[] = {
    "",
    ",",
    ":",
    "]",
    "}",
    "[",
    "{",
    "[1",
    "[1,",
    "[1,]",
    "[,1]",
    "[1,,2]",
    "[1 2]",
    "[1 true]",
    "[1]]",
    "[1}",
    "{]",
    "{1}",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{,}",
    "{\"a\" 1}",
    "{\"a\":1 \"b\":2}",
    "{\"a\":1,,\"b\":2}",
    "{a:1}",
    "{'a':1}",
    "{\"a\":'b'}",
    "{null:1}",
    "{1:1}",
    "{\"a\":1}}",
    "{\"a\":[1}",
    "{\"a\":{\"b\":1}",
    "{\"a\":1]",
    // numbers
    "01",
    "-",
    "-01",
    "+1",
    "1.",
    ".5",
    "-.5",
    "1.e5",
    "1e",
    "1e+",
    "1e-",
    "1E",
    "0x1F",
    "1_000",
    "1,5",
    "--1",
    "1-",
    "1+1",
    "0e",
    "00",
    "-a",
    "NaN",
    "-NaN",
    "Infinity",
    "-Infinity",
    "inf",
    "nan",
    "1f",
    "1L",
    "0b1",
    "0o7",
    "1e1.5",
    "1 000",
    "\xEF\xBC\x91",
    "1\0"s,
    // literals
    "nul",
    "nulL",
    "NULL",
    "None",
    "True",
    "tru",
    "truee",
    "fals",
    "FALSE",
    "undefined",
    "yes",
    // strings
    "\"",
    "\"a",
    "\"\\\"",
    "\"\\",
    "\"\\x\"",
    "\"\\a\"",
    "\"\\'\"",
    "\"\\0\"",
    "\"\\u\"",
    "\"\\u1\"",
    "\"\\u12\"",
    "\"\\u123\"",
    "\"\\u123g\"",
    "\"\\U0041\"",
    "\"\\u{41}\"",
    "'a'",
    "a",
    "\"a\"\"b\"",
    "\"a\" \"b\"",
    "\"\n\"",
    "\"\r\"",
    "\"\t\"",
    "\"\0\""s,
    "\"\x01\"",
    "\"\x1f\"",
    "\"a\x08z\"",
    "`a`",
    "\"\"\"a\"\"\"",
    "\xE2\x80\x9C"
    "a\xE2\x80\x9D",
    // surrogates
    "\"\\ud800\"",
    "\"\\udfff\"",
    "\"\\udc00\\ud800\"",
    "\"\\ud800\\u0041\"",
    "\"\\ud800a\"",
    "\"\\ud800\\\"",
    "\"\\ud800\\ud800\"",
    "\"\\ud83d\\\\ude00\"",
    "[\"\\uDBFF\"]",
    // bytes that are not UTF-8
    "\"\x80\"",
    "\"\xbf\"",
    "\"\xc0\xaf\"",
    "\"\xc1\xbf\"",
    "\"\xc3\"",
    "\"\xc3(\"",
    "\"\xe0\x80\xaf\"",
    "\"\xe0\x9f\xbf\"",
    "\"\xe2\x82\"",
    "\"\xe2(\xa1\"",
    "\"\xed\xa0\x80\"",
    "\"\xed\xbf\xbf\"",
    "\"\xf0\x80\x80\xaf\"",
    "\"\xf0\x9f\x98\"",
    "\"\xf0\x28\x8c\xbc\"",
    "\"\xf4\x90\x80\x80\"",
    "\"\xf5\x80\x80\x80\"",
    "\"\xf8\x88\x80\x80\x80\"",
    "\"\xfe\"",
    "\"\xff\"",
    "\xff",
    "\"\xed\xa0\xbd\xed\xb8\x80\"",
    // comments and other spaces
    "/* a */ 1",
    "// a\n1",
    "# a\n1",
    "1 // a",
    "\xC2\xA0"
    "1",
    "\xE2\x80\xA8"
    "1",
    "\x0c"
    "1",
    "\x0b"
    "1",
    "\xEF\xBB\xBF"
    "1",
    "<a/>",
    "(1)",
    "1;",
    "=1",
    "*",
    "&a",
    "@",
    "!1",
    "~",
    "|",
    "\\",
    "$ref",
    "{{1}}",
    "[[1]",
    "<!-- 1 -->",
    "%7B%7D",
    "\x7f",
    // twice in one object
    "{\"a\":1,\"a\":1}",
    "{\"a\":1,\"\\u0061\":2}",
    "[{\"b\":{\"a\":1,\"c\":2,\"a\":3}}]",
    "{\"\":1,\"\":2}",
};

std::string utf16(std::string_view ascii, bool is_big_endian, bool has_mark) {
  std::string bytes = !has_mark ? "" : is_big_endian ? "\xFE\xFF" : "\xFF\xFE";
  for (const char c : ascii) {
    if (is_big_endian) bytes += '\0';
    bytes += c;
    if (!is_big_endian) bytes += '\0';
  }
  return bytes;
}

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) text += part;
  return text;
}

std::string nested(size_t depth, std::string_view open, std::string_view close) {
  std::string text;
  for (size_t i = 0; i < depth; ++i) text += open;
  text += '1';
  for (size_t i = 0; i < depth; ++i) text += close;
  return text;
}

// Distinct bodies, none of which is a JSON object.
std::set<std::string> hostile_bodies() {
  std::set<std::string> bodies;
  for (size_t size = 0; size < kGoodBody.size(); ++size) bodies.insert(kGoodBody.substr(0, size));
  for (const std::string& value : kBadValues) {
    bodies.insert(value);
    bodies.insert(joined({"{\"prompt\": ", value, "}"}));
    bodies.insert(joined({"{\"prompt\": \"x\", \"stop\": [", value, "]"}));
  }
  for (const char* value :
       {"null",
        "true",
        "false",
        "1",
        "-0",
        "1e9",
        "\"{}\"",
        "[]",
        "[{}]",
        "[\"prompt\"]",
        "\"\""}) {
    bodies.insert(value);
    bodies.insert(joined({" \n", value, "\t"}));
  }
  for (const char* tail : {"{}", "x", ",", "]", "}", "null", "\"", "\xEF\xBB\xBF", "//", "\x01"}) {
    bodies.insert(joined({kGoodBody, tail}));
    bodies.insert(joined({kGoodBody, "\n", tail}));
  }
  bodies.insert(joined({kGoodBody, "\0"sv}));
  bodies.insert(joined({"\xEF\xBB\xBF", kGoodBody}));
  for (const bool is_big_endian : {false, true}) {
    for (const bool has_mark : {false, true}) {
      bodies.insert(utf16(kGoodBody, is_big_endian, has_mark));
    }
  }
  for (const size_t depth : std::initializer_list<size_t>{100, 101, 1'000, 100'000, 1'000'000}) {
    bodies.insert(nested(depth, "[", "]"));
    bodies.insert(joined({"{\"prompt\": ", nested(depth, "[", "]"), "}"}));
    bodies.insert(joined({"{\"prompt\": ", nested(depth, "{\"a\":", "}"), "}"}));
    bodies.insert(std::string(depth, '['));
    bodies.insert(std::string(depth, '{'));
    bodies.insert(std::string(depth, ' '));
    bodies.insert(std::string(depth, '\0'));
    bodies.insert(joined({"{\"prompt\": \"", std::string(depth, '\\')}));
    bodies.insert(joined({"{\"prompt\": ", std::string(depth, '9'), "x}"}));
  }
  return bodies;
}

TEST(HostileJson, EachBodyGetsOneErrorFromEveryEndpoint) {
  const std::set<std::string> bodies = hostile_bodies();
  EXPECT_GE(bodies.size(), 318U);
  for (const std::string& body : bodies) {
    for (const Endpoint endpoint : kEndpoints) {
      const std::optional<Error> error = refusal(endpoint, body);
      ASSERT_TRUE(error) << body.substr(0, 200);
      const ApiError answer = to_api_error(*error);
      EXPECT_EQ(answer.status, 400) << body.substr(0, 200);
      EXPECT_TRUE(
          answer.code == "invalid_json" || answer.code == "invalid_type" ||
          answer.code == "array_below_min_length"
      ) << answer.code
        << " for " << body.substr(0, 200);
      EXPECT_EQ(fault_of_error_body(answer), "") << body.substr(0, 200);
    }
  }
}

// Each byte of a good body replaced by each of these: an answer or an error, never a crash.
TEST(HostileJson, DamagedBytesAreReadOrRefused) {
  size_t num_read = 0;
  for (size_t i = 0; i < kGoodBody.size(); ++i) {
    for (const char byte : "\"\\{}[]:,0-e \x80\xff\n\0"s) {
      std::string body = kGoodBody;
      body[i] = byte;
      const std::optional<Error> error = refusal(kC, body);
      num_read += !error;
      if (!error) continue;
      EXPECT_EQ(fault_of_error_body(to_api_error(*error)), "") << body;
    }
  }
  EXPECT_GT(num_read, 100U);
}

struct RawCase {
  std::string_view id;
  std::string body;
  int status = 400;
  std::string_view code = "invalid_json";
  std::string_view param = {};
};

TEST(HostileJson, TheTableOfBadJson) {
  const auto prompt = [](std::string_view value) {
    return fmt::format(R"({{"prompt": {}}})", value);
  };
  std::string many_keys = "{";
  for (int i = 0; i < 1'000'000; ++i) many_keys += fmt::format(R"("k{}":0,)", i);
  many_keys.back() = '}';
  const RawCase cases[] = {
      {"B1", ""},
      {"B2", " \t\r\n "},
      {"B3", "prompt=x"},
      {"B4", R"("prompt")", 400, "invalid_type"},
      {"B4", "[]", 400, "invalid_type"},
      {"B4", "5", 400, "invalid_type"},
      {"B4", "null", 400, "invalid_type"},
      {"B4", "true", 400, "invalid_type"},
      {"B5", joined({prompt(R"("x")"), "x"})},
      {"B5", prompt(R"("x")") + prompt(R"("x")")},
      {"B6", R"({"prompt": "x",})"},
      {"B6", R"({"prompt": "x" /* why */})"},
      {"B6", "{'prompt': 'x'}"},
      {"B7", prompt(R"("x", "temperature": NaN)")},
      {"B7", prompt(R"("x", "temperature": Infinity)")},
      {"B7", prompt(R"("x", "temperature": -Infinity)")},
      {"B8", prompt(R"("x", "max_tokens": 1e400)"), 400, "invalid_type", "max_tokens"},
      {"B8", prompt(R"("x", "top_p": 1e400)"), 400, "decimal_above_max_value", "top_p"},
      {"B9", prompt(R"("x", "seed": 9007199254740993)"), 200},
      {"B9", prompt(R"("x", "seed": 99999999999999999999)"), 400, "invalid_type", "seed"},
      {"B10", prompt(R"("x", "max_tokens": 5.0)"), 400, "invalid_type", "max_tokens"},
      {"B11", prompt(nested(101, "[", "]"))},
      {"B11", prompt(nested(100'000, "[", "]"))},
      {"B12", many_keys, 400, "unknown_parameter", "k0"},
      {"B13", R"({"prompt": "x", "prompt": "y"})"},
      {"B14", prompt(R"("\ud800")")},
      {"B15", prompt("\"\xff\"")},
      {"B16", prompt("\"\xc0\xaf\"")},
      {"B17", joined({"\xEF\xBB\xBF", prompt(R"("x")")})},
      {"B18", utf16(prompt(R"("x")"), false, true)},
      {"B19", prompt("\"a\nb\"")},
      {"B20", prompt(R"("a\u0000b")"), 200},
      {"B20", prompt(R"("x", "request_id": "a\u0000b")"), 400, "invalid_value", "request_id"},
      {"B21", prompt(joined({"\"", std::string(100 << 20, 'x'), "\""})), 200},
      {"B23", prompt(R"("x", "\u0000\n": 1)"), 400, "unknown_parameter", "\0\n"sv},
      {"B24", R"({"Prompt": "x"})", 400, "unknown_parameter", "Prompt"},
  };
  for (const RawCase& c : cases) {
    const std::string_view start = std::string_view(c.body).substr(0, 100);
    const std::optional<Error> error = refusal(kC, c.body);
    ASSERT_EQ(error.has_value(), c.status != 200) << c.id << ": " << start;
    if (!error) continue;
    const ApiError answer = to_api_error(*error);
    EXPECT_EQ(answer.status, c.status) << c.id << ": " << start;
    EXPECT_EQ(answer.code, c.code) << c.id << ": " << start;
    EXPECT_EQ(answer.param.value_or(""), c.param) << c.id << ": " << start;
    EXPECT_EQ(fault_of_error_body(answer), "") << c.id << ": " << start;
  }
}

}  // namespace
}  // namespace millrace
