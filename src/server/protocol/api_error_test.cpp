#include "server/protocol/api_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error_reason.h"
#include "base/json.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

json::object error_of(const std::string& body) {
  const Result<json::value> parsed = parse_json(body);
  CHECK(parsed.ok(), body);
  return parsed->at("error").as_object();
}

std::string header(const http::Response& response, std::string_view name) {
  for (const http::Header& field : response.headers) {
    if (field.name == name) return field.value;
  }
  return "";
}

TEST(ApiError, EachCodeHasItsStatusAndType) {
  struct Row {
    ErrorCode code;
    int status;
    std::string_view type, word;
  };
  constexpr Row kRows[] = {
      {ErrorCode::kInvalidArgument, 400, "invalid_request_error", "invalid_value"},
      {ErrorCode::kNotFound, 404, "invalid_request_error", "not_found"},
      {ErrorCode::kUnsupported, 400, "invalid_request_error", "unsupported_parameter"},
      {ErrorCode::kResourceExhausted, 503, "server_error", "server_overloaded"},
      {ErrorCode::kDeadlineExceeded, 504, "server_error", "deadline_exceeded"},
      {ErrorCode::kCancelled, 503, "server_error", "server_shutting_down"},
      {ErrorCode::kInternal, 500, "server_error", "internal_error"},
  };
  for (const Row& row : kRows) {
    const ApiError error = to_api_error({row.code, "what", ""});
    EXPECT_EQ(error.status, row.status);
    EXPECT_EQ(error.type, row.type);
    EXPECT_EQ(error.code, row.word);
    EXPECT_FALSE(error.param);
  }
}

TEST(ApiError, ReasonAndPlaceBecomeCodeAndParam) {
  const ApiError error = to_api_error(
      invalid_argument("n must be between 1 and 128, got 130", "n", error_reason::kIntegerAboveMax)
  );
  EXPECT_EQ(
      to_json(error),
      R"({"error":{"message":"n must be between 1 and 128, got 130",)"
      R"("type":"invalid_request_error","param":"n","code":"integer_above_max_value"}})"
  );
}

TEST(ApiError, WhatIsMissingIsNull) {
  const json::object error = error_of(to_json({.status = 400, .type = "t", .message = "x"}));
  EXPECT_TRUE(error.at("param").is_null());
  EXPECT_TRUE(error.at("code").is_null());
}

TEST(ApiError, InternalErrorsKeepTheirMessageToThemselves) {
  const ApiError error = to_api_error({ErrorCode::kInternal, "/var/lib: disk on fire", "/var/lib"});
  EXPECT_THAT(to_json(error), Not(HasSubstr("/var/lib")));
  EXPECT_EQ(error_of(to_json(error)).at("code"), "internal_error");
}

TEST(ApiError, APromptThatIsTooLongIsNotAShortageOfTheServer) {
  const ApiError error = to_api_error(
      {ErrorCode::kResourceExhausted, "too long", "prompt", error_reason::kContextLengthExceeded}
  );
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.code, "context_length_exceeded");
}

TEST(ApiError, SaysWhenToTryAgainWhereItIsAMatterOfTime) {
  EXPECT_EQ(header(to_response({.status = 503, .message = "busy"}), "retry-after"), "1");
  EXPECT_EQ(header(to_response({.status = 429, .message = "busy"}), "retry-after"), "1");
  EXPECT_EQ(header(to_response({.status = 400, .message = "bad"}), "retry-after"), "");
  EXPECT_EQ(header(to_response({.status = 500, .message = "bug"}), "retry-after"), "");
  const http::Response response = to_response({.status = 404, .message = "none"});
  EXPECT_EQ(response.status, 404);
  EXPECT_THAT(header(response, "content-type"), HasSubstr("application/json"));
}

TEST(ApiError, AFullServerIsNotTheFaultOfTheClientUnlessItIs) {
  Error error{.code = ErrorCode::kResourceExhausted, .message = "full"};
  error.retry_after = std::chrono::seconds(17);
  const http::Response everybodys = to_response(to_api_error(error));
  EXPECT_EQ(everybodys.status, 503);
  EXPECT_EQ(error_of(everybodys.body).at("code"), "server_overloaded");
  EXPECT_EQ(header(everybodys, "retry-after"), "17");

  error.reason = error_reason::kRateLimit;
  const http::Response own = to_response(to_api_error(error));
  EXPECT_EQ(own.status, 429);
  EXPECT_EQ(error_of(own.body).at("code"), "rate_limit_exceeded");
  EXPECT_EQ(error_of(own.body).at("type"), "rate_limit_error");
  EXPECT_EQ(header(own, "retry-after"), "17");
}

TEST(ApiError, MessagesAreOneShortLineOfUtf8) {
  const auto worded = [](std::string message) {
    const json::object error = error_of(to_json({.status = 400, .message = std::move(message)}));
    return std::string(error.at("message").as_string());
  };
  EXPECT_EQ(worded("a\nb\r\x1b[2J\x7f \xc2\x9f \xe2\x80\xa8!"), "a b  [2J     !");
  EXPECT_EQ(worded(std::string("a\0b", 3)), "a b");
  EXPECT_EQ(worded("cut \xe4\xb8"), "cut \xEF\xBF\xBD");
  EXPECT_EQ(worded("\xff\xfe"), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(worded(std::string(5000, 'x')), std::string(600, 'x') + "...");
}

TEST(ApiError, ParamsAreCutToo) {
  const json::object error = error_of(
      to_json({.status = 400, .param = "logit_bias." + std::string(5000, 'x'), .message = "m"})
  );
  EXPECT_LE(error.at("param").as_string().size(), 203U);
}

TEST(ApiError, RefusalsOfTheConnectionLookAlike) {
  const http::Response response =
      render_refusal(http::refuse(413, "content_too_large", "the body has more than 9 bytes"));
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(
      response.body,
      R"({"error":{"message":"the body has more than 9 bytes","type":"invalid_request_error",)"
      R"("param":null,"code":"content_too_large"}})"
  );
  EXPECT_THAT(
      render_refusal(http::refuse(401, "invalid_api_key", "no")).body,
      HasSubstr("invalid_request_error")
  );
  EXPECT_THAT(
      render_refusal(http::refuse(429, "rate_limit_exceeded", "no")).body,
      HasSubstr("rate_limit_error")
  );
  EXPECT_THAT(render_refusal(http::refuse(503, "draining", "no")).body, HasSubstr("server_error"));
}

}  // namespace
}  // namespace millrace
