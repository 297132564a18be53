#include "server/protocol/tokenize_request.h"

#include <gtest/gtest.h>

#include "server/protocol/abort_request.h"
#include "server/protocol/request_cases.h"

namespace millrace {
namespace {

constexpr Endpoint kT = Endpoint::kTokenize;
constexpr Endpoint kD = Endpoint::kDetokenize;
constexpr Endpoint kA = Endpoint::kAbort;
constexpr std::string_view kHi = R"("messages": [{"role": "user", "content": "Hi"}])";

std::string tokenized(std::string_view body) {
  const Result<TokenizeRequest> request = read_tokenize_request(body, small_context());
  CHECK(request.ok(), request.error().message);
  const Result<std::string> answer = tokenize_answer(*request, small_context().text, 256, {});
  CHECK(answer.ok(), answer.error().message);
  return *answer;
}

std::string detokenized(std::string_view body) {
  const Result<DetokenizeRequest> request = read_detokenize_request(body, small_context());
  CHECK(request.ok(), request.error().message);
  return detokenize_answer(*request, small_context().text);
}

TEST(TokenizeRequest, RefusesByPath) {
  const RequestCase cases[] = {
      {"F1", kT, "{}", 400, "missing_required_parameter", "prompt"},
      {"F1", kT, fmt::format(R"({{"prompt": "x", {}}})", kHi), 400, "invalid_value", "prompt"},
      {"F2", kT, R"({"prompt": 5})", 400, "invalid_type", "prompt"},
      {"F2", kT, R"({"prompt": ["x"]})", 400, "invalid_type", "prompt"},
      {"F2", kT, R"({"messages": "x"})", 400, "invalid_type", "messages"},
      {"F2",
       kT,
       R"({"messages": [{"role": "user"}]})",
       400,
       "missing_required_parameter",
       "messages[0].content"},
      {"F2", kT, R"({"prompt": "x", "model": "other"})", 404, "model_not_found", "model"},
      {"F2", kT, R"({"prompt": "x", "tools": []})", 400, "unknown_parameter", "tools"},
      {"F3",
       kT,
       R"({"prompt": "x", "add_special_tokens": 1})",
       400,
       "invalid_type",
       "add_special_tokens"},
      {"F4",
       kT,
       R"({"prompt": "x", "return_token_strs": "yes"})",
       400,
       "invalid_type",
       "return_token_strs"},
      {"F4",
       kT,
       fmt::format(R"({{{}, "chat_template": "x"}})", kHi),
       400,
       "unsupported_parameter",
       "chat_template"},
      {"F4",
       kT,
       fmt::format(R"({{{}, "chat_template_kwargs": {{"tokenize": 1}}}})", kHi),
       400,
       "invalid_value",
       "chat_template_kwargs.tokenize"},
      {"F4",
       kT,
       R"({"messages": [{"role": "user", "content": "Hi"}], "chat_template_kwargs": {"x": 1}})",
       400,
       "unsupported_parameter",
       "chat_template_kwargs.x"},
      {"F6", kD, "{}", 400, "missing_required_parameter", "tokens"},
      {"F6", kD, R"({"tokens": "x"})", 400, "invalid_type", "tokens"},
      {"F6", kD, R"({"tokens": [-1]})", 400, "integer_below_min_value", "tokens[0]"},
      {"F6", kD, R"({"tokens": [1, 1000]})", 400, "integer_above_max_value", "tokens[1]"},
      {"F6", kD, R"({"tokens": [1.5]})", 400, "invalid_type", "tokens[0]"},
      {"F6", kD, R"({"tokens": [[1]]})", 400, "invalid_type", "tokens[0]"},
      {"F6", kD, R"({"tokens": []})"},
      {"F17", kA, "{}", 400, "missing_required_parameter", "rid"},
      {"F17", kA, R"({"rid": ""})", 400, "invalid_value", "rid"},
      {"F17", kA, R"({"rid": 5})", 400, "invalid_type", "rid"},
      {"F17", kA, R"({"abort_all": 1})", 400, "invalid_type", "abort_all"},
      {"F17", kA, R"({"rid": "x", "force": true})", 400, "unknown_parameter", "force"},
      {"F17", kA, R"({"rid": "", "abort_all": true})"},
  };
  for (const RequestCase& c : cases) EXPECT_EQ(fault_of(c), "");
}

TEST(TokenizeRequest, AnswersInVllmsShape) {
  EXPECT_EQ(
      tokenized(R"({"prompt": "ab", "messages": null, "add_special_tokens": false})"),
      R"({"count":2,"max_model_len":256,"tokens":[97,98],"token_strs":null})"
  );
  EXPECT_EQ(
      tokenized(R"({"prompt": "a\n", "add_special_tokens": false, "return_token_strs": true})"),
      R"({"count":2,"max_model_len":256,"tokens":[97,10],"token_strs":["a","Ċ"]})"
  );
  EXPECT_EQ(
      tokenized(R"({"prompt": "", "add_special_tokens": false})"),
      R"({"count":0,"max_model_len":256,"tokens":[],"token_strs":null})"
  );
}

TEST(TokenizeRequest, ChatsAreRenderedFirst) {
  const auto text_of = [](const std::string& answer) {
    const Result<json::value> parsed = parse_json(answer);
    std::string text;
    for (const json::value& id : parsed->at("tokens").as_array()) {
      text += static_cast<char>(id.as_int64());
    }
    return text;
  };
  EXPECT_EQ(text_of(tokenized(fmt::format("{{{}}}", kHi))), "[user]Hi[end][assistant]");
  EXPECT_EQ(
      text_of(tokenized(fmt::format(R"({{{}, "add_generation_prompt": false}})", kHi))),
      "[user]Hi[end]"
  );
}

TEST(TokenizeRequest, DetokenizesPartialCharactersAsReplacements) {
  EXPECT_EQ(detokenized(R"({"tokens": [97, 98]})"), R"({"prompt":"ab"})");
  // The first two of the three bytes of U+4E2D.
  EXPECT_NE(detokenized(R"({"tokens": [97, 228, 184]})").find("\xEF\xBF\xBD"), std::string::npos);
}

TEST(AbortRequest, NamesARequestOrAll) {
  EXPECT_EQ(read_abort_request(R"({"rid": "r-1"})")->request_id, "r-1");
  EXPECT_FALSE(read_abort_request(R"({"rid": "r-1"})")->abort_all);
  EXPECT_TRUE(read_abort_request(R"({"abort_all": true})")->abort_all);
}

}  // namespace
}  // namespace millrace
