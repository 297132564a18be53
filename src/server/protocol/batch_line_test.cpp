// The lines of batch files: what is read, what is written, and that the one reads the other.
#include "server/protocol/batch_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace millrace {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kGood =
    R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"x","n":2}})";

TEST(BatchLine, ReadsARequest) {
  const BatchRequestLine line = read_batch_request(kGood);
  EXPECT_FALSE(line.error);
  EXPECT_EQ(line.custom_id, "a");
  EXPECT_EQ(line.api, Api::kCompletions);
  EXPECT_EQ(json::parse(line.body), json::parse(R"({"prompt":"x","n":2})"));
  const BatchRequestLine chat = read_batch_request(
      R"({"body":{},"url":"/v1/chat/completions","method":"POST","custom_id":"ü \u0000"})"
  );
  EXPECT_FALSE(chat.error);
  EXPECT_EQ(chat.api, Api::kChat);
  EXPECT_EQ(chat.custom_id, std::string("ü \0", 4));
}

TEST(BatchLine, NamesWhatIsWrongWithALine) {
  struct Case {
    std::string line;
    bool has_custom_id;
    std::string_view code;
    std::string message;
  };
  const std::string long_id(kCustomIdBytesMax + 1, 'x');
  const Case cases[] = {
      {"", false, "invalid_json", "no JSON"},
      {"nonsense", false, "invalid_json", "no JSON"},
      {"\xff", false, "invalid_json", "no JSON"},
      {"[]", false, "invalid_json", "object"},
      {R"({"a":1,"a":2})", false, "invalid_json", "stands twice"},
      {"{}", false, "missing_required_parameter", "custom_id"},
      {R"({"custom_id":5})", false, "invalid_type", "custom_id"},
      {R"({"custom_id":""})", false, "invalid_value", "custom_id"},
      {R"({"custom_id":")" + long_id + R"("})", false, "invalid_value", "custom_id"},
      {R"({"custom_id":"a"})", true, "missing_required_parameter", "method"},
      {R"({"custom_id":"a","method":"GET"})", true, "invalid_method", "method"},
      {R"({"custom_id":"a","method":"POST"})", true, "missing_required_parameter", "url"},
      {R"({"custom_id":"a","method":"POST","url":"/v1/embeddings","body":{}})",
       true,
       "invalid_url",
       "/v1/embeddings"},
      {R"({"custom_id":"a","method":"POST","url":"/v1/completions"})",
       true,
       "missing_required_parameter",
       "body"},
      {R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":"x"})",
       true,
       "invalid_type",
       "body"},
      {R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{},"priority":1})",
       true,
       "unknown_parameter",
       "priority"},
      // It became null, as if it had not been given.
      {R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{"temperature":1e400}})",
       true,
       "invalid_value",
       "body.temperature must be a number"},
      {R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{"x":[1,{"y":-1e400}]}})",
       true,
       "invalid_value",
       "body.x[1].y must be a number"},
  };
  for (const Case& wrong : cases) {
    const BatchRequestLine line = read_batch_request(wrong.line);
    ASSERT_TRUE(line.error) << wrong.line;
    EXPECT_EQ(line.custom_id.has_value(), wrong.has_custom_id) << wrong.line;
    EXPECT_EQ(line.error->reason, wrong.code) << wrong.line;
    EXPECT_THAT(line.error->message, HasSubstr(wrong.message)) << wrong.line;
  }
}

TEST(BatchLine, WritesAnAnswerInOpenAisShape) {
  const std::string line =
      batch_answer_line({.line_number = 7, .custom_id = "a\n\"b"}, 200, "req-1", R"({"x":[1]})");
  EXPECT_THAT(line, StartsWith(kBatchAnswerHead));
  EXPECT_THAT(line, EndsWith("\n"));
  EXPECT_EQ(json::parse(line), json::parse(R"({"id":"batch_req_7","custom_id":"a\n\"b","response":
        {"status_code":200,"request_id":"req-1","body":{"x":[1]}},"error":null})"));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
}

TEST(BatchLine, WritesAnErrorInOpenAisShape) {
  const std::string line = batch_error_line(
      {.line_number = 8, .custom_id = std::nullopt},
      invalid_argument("bad \xff\n" + std::string(5000, 'x'), "", "invalid_json")
  );
  EXPECT_THAT(line, StartsWith(kBatchAnswerHead));
  EXPECT_LT(line.size(), 1200U);
  const json::value value = json::parse(line);
  EXPECT_EQ(value.at("id").as_string(), "batch_req_8");
  EXPECT_TRUE(value.at("custom_id").is_null());
  EXPECT_TRUE(value.at("response").is_null());
  EXPECT_EQ(value.at_pointer("/error/code").as_string(), "invalid_json");
  EXPECT_EQ(line.find('\n'), line.size() - 1);
}

TEST(BatchLine, ReadsBackWhatItWrites) {
  const BatchAnswerName name{.line_number = 12345678901, .custom_id = "q"};
  const auto answer = read_batch_answer(batch_answer_line(name, 200, "r", "{}"));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->name, name);
  EXPECT_FALSE(answer->is_failed);
  const auto refused = read_batch_answer(batch_answer_line(name, 400, "r", "{}"));
  ASSERT_TRUE(refused);
  EXPECT_TRUE(refused->is_failed);
  const BatchAnswerName nameless{.line_number = 3, .custom_id = std::nullopt};
  const auto failed = read_batch_answer(batch_error_line(nameless, invalid_argument("x")));
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->name, nameless);
  EXPECT_TRUE(failed->is_failed);
}

TEST(BatchLine, TakesNothingElseForAnAnswer) {
  const char* lines[] = {
      "",
      "text",
      "[]",
      "{}",
      R"({"id":"batch_req_1"})",
      R"({"id":"batch_req_x","custom_id":"a","response":null,"error":{}})",
      R"({"id":"batch_req_-1","custom_id":"a","response":null,"error":{}})",
      R"({"id":"7","custom_id":"a","response":null,"error":{}})",
      R"({"id":"batch_req_1","custom_id":5,"response":null,"error":{}})",
      R"({"id":"batch_req_1","custom_id":"a","response":null,"error":null})",
      R"({"id":"batch_req_1","custom_id":"a","response":{},"error":null})",
      R"({"id":"batch_req_1","custom_id":"a","response":{"status_code":200},"error":{}})",
  };
  for (const char* line : lines) EXPECT_FALSE(read_batch_answer(line)) << line;
}

}  // namespace
}  // namespace millrace
