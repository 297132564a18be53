#include "loadgen/mock/mock_request.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "base/json.h"
#include "loadgen/mock/mock_tokenizer.h"

namespace millrace::bench {
namespace {

// An answer is made of them one after another; more is a slip of the client's.
constexpr int64_t kNumTokensMax = 1'000'000;
constexpr int64_t kNumTokensDefault = 16;

// The fields of one object; null counts as left out, as in OpenAI's API. The first error stays.
class Fields {
 public:
  Fields(const json::object& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  const json::value* find(std::string_view name) const {
    const json::value* value = object_.if_contains(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  bool boolean(std::string_view name) {
    const json::value* value = find(name);
    if (value == nullptr) return false;
    if (!value->is_bool()) fail(name, "expected true or false");
    return value->is_bool() && value->get_bool();
  }

  std::optional<int64_t> integer(std::string_view name, int64_t min, int64_t max) {
    const json::value* value = find(name);
    if (value == nullptr) return std::nullopt;
    boost::system::error_code error;
    const auto number = value->to_number<int64_t>(error);
    if (!error && number >= min && number <= max) return number;
    fail(name, fmt::format("expected a whole number from {} to {}", min, max));
    return std::nullopt;
  }

  std::optional<std::string_view> text(std::string_view name) {
    const json::value* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (value->is_string()) return std::string_view(value->get_string());
    fail(name, "expected a string");
    return std::nullopt;
  }

  const json::object* object(std::string_view name) {
    const json::value* value = find(name);
    if (value == nullptr) return nullptr;
    if (!value->is_object()) fail(name, "expected an object");
    return value->if_object();
  }

  void fail(std::string_view name, std::string message) {
    if (!error_) error_ = invalid_argument(std::move(message), where_ + std::string(name));
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  const json::object& object_;
  std::string where_;
  std::optional<Error> error_;
};

std::optional<std::vector<TokenId>> read_ids(const json::value& value) {
  const json::array* array = value.if_array();
  if (array == nullptr) return std::nullopt;
  std::vector<TokenId> ids;
  ids.reserve(array->size());
  for (const json::value& item : *array) {
    boost::system::error_code error;
    const auto id = item.to_number<TokenId>(error);
    if (error || id < 0 || id >= kMockVocabSize) return std::nullopt;
    ids.push_back(id);
  }
  return ids;
}

std::optional<int64_t> count_text_or_ids(const json::value& prompt) {
  if (prompt.is_string()) return static_cast<int64_t>(count_mock_tokens(prompt.get_string()));
  const std::optional<std::vector<TokenId>> ids = read_ids(prompt);
  if (!ids) return std::nullopt;
  return static_cast<int64_t>(ids->size());
}

// Text, ids, or a list with one of either.
std::optional<int64_t> count_prompt(const json::value& prompt) {
  const json::array* array = prompt.if_array();
  const bool is_list = array != nullptr && array->size() == 1 && !array->front().is_number();
  return count_text_or_ids(is_list ? array->front() : prompt);
}

// A message's text: a string, or a list of parts of which those with text count.
std::optional<int64_t> count_content(const json::value& content) {
  if (content.is_string()) return static_cast<int64_t>(count_mock_tokens(content.get_string()));
  if (content.is_null()) return 0;
  const json::array* parts = content.if_array();
  if (parts == nullptr) return std::nullopt;
  int64_t count = 0;
  for (const json::value& part : *parts) {
    const json::object* object = part.if_object();
    const json::value* text = object == nullptr ? nullptr : object->if_contains("text");
    if (text == nullptr || !text->is_string()) return std::nullopt;
    count += static_cast<int64_t>(count_mock_tokens(text->get_string()));
  }
  return count;
}

std::optional<int64_t> count_messages(const json::value& messages) {
  const json::array* array = messages.if_array();
  if (array == nullptr || array->empty()) return std::nullopt;
  int64_t count = 0;
  for (const json::value& message : *array) {
    const json::object* object = message.if_object();
    const json::value* role = object == nullptr ? nullptr : object->if_contains("role");
    if (role == nullptr || !role->is_string()) return std::nullopt;
    const json::value* content = object->if_contains("content");
    const auto of_message = content == nullptr ? 0 : count_content(*content);
    if (!of_message) return std::nullopt;
    count += *of_message;
  }
  return count;
}

Result<json::object> read_object(std::string_view body) {
  Result<json::value> value = parse_json(body);
  if (!value) return value.error();
  if (!value->is_object()) return invalid_argument("expected a JSON object");
  return std::move(value->get_object());
}

void read_usage_options(Fields& fields, MockRequest& request) {
  const json::object* object = fields.object("stream_options");
  if (object == nullptr) return;
  Fields options(*object, "stream_options.");
  request.includes_usage = options.boolean("include_usage");
  request.wants_usage_deltas = options.boolean("continuous_usage_stats");
  if (options.error()) fields.fail("stream_options", options.error()->message);
}

Result<MockRequest> read_openai(MockApi api, const json::object& object, std::string_view model) {
  Fields fields(object, "");
  MockRequest request{.api = api};
  const std::optional<std::string_view> named = fields.text("model");
  const bool is_chat = api == MockApi::kChat;
  const char* prompt_name = is_chat ? "messages" : "prompt";
  const json::value* prompt = fields.find(prompt_name);
  const auto count = prompt == nullptr ? std::nullopt
                     : is_chat         ? count_messages(*prompt)
                                       : count_prompt(*prompt);
  if (!count) {
    const char* wanted = is_chat ? "expected messages, each with a role and text"
                                 : "expected one text or one list of token ids";
    fields.fail(prompt_name, wanted);
  }
  request.num_prompt_tokens = count.value_or(0);
  const auto newer = fields.integer("max_completion_tokens", 0, kNumTokensMax);
  const auto older = fields.integer("max_tokens", 0, kNumTokensMax);
  request.num_tokens_asked = newer ? *newer : older.value_or(kNumTokensDefault);
  static_cast<void>(fields.integer("n", 1, 1));
  request.is_streamed = fields.boolean("stream");
  request.returns_token_ids = fields.boolean("return_token_ids");
  read_usage_options(fields, request);
  if (fields.error()) return *fields.error();
  if (named && *named != model) {
    return not_found("there is no model of this name; /v1/models lists the one there is", "model");
  }
  return request;
}

Result<MockRequest> read_native(const json::object& object) {
  Fields fields(object, "");
  MockRequest request{.api = MockApi::kGenerate};
  const json::value* text = fields.find("text");
  const json::value* ids = fields.find("input_ids");
  const json::value* prompt = text != nullptr ? text : ids;
  const auto count = prompt == nullptr ? std::nullopt : count_prompt(*prompt);
  if (!count || (text != nullptr && ids != nullptr)) {
    fields.fail("text", "expected one text here, or one list of token ids in input_ids");
  }
  request.num_prompt_tokens = count.value_or(0);
  request.num_tokens_asked = kNumTokensDefault;
  if (const json::object* sampling = fields.object("sampling_params")) {
    Fields inner(*sampling, "sampling_params.");
    request.num_tokens_asked =
        inner.integer("max_new_tokens", 0, kNumTokensMax).value_or(kNumTokensDefault);
    static_cast<void>(inner.integer("n", 1, 1));
    if (inner.error()) return *inner.error();
  }
  request.is_streamed = fields.boolean("stream");
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace

Result<MockRequest> read_mock_request(MockApi api, std::string_view body, std::string_view model) {
  const Result<json::object> object = read_object(body);
  if (!object) return object.error();
  return api == MockApi::kGenerate ? read_native(*object) : read_openai(api, *object, model);
}

Result<std::string> mock_tokenize(std::string_view body) {
  const Result<json::object> object = read_object(body);
  if (!object) return object.error();
  Fields fields(*object, "");
  const std::optional<std::string_view> prompt = fields.text("prompt");
  if (!prompt) fields.fail("prompt", "expected a string");
  if (fields.error()) return *fields.error();
  const std::vector<TokenId> ids = encode_mock_text(*prompt);
  std::string answer =
      fmt::format(R"({{"count":{},"max_model_len":{},"tokens":[)", ids.size(), kNumTokensMax);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) answer += ',';
    answer += std::to_string(ids[i]);
  }
  answer += "]}";
  return answer;
}

Result<std::string> mock_detokenize(std::string_view body) {
  const Result<json::object> object = read_object(body);
  if (!object) return object.error();
  const json::value* tokens = object->if_contains("tokens");
  const auto ids = tokens == nullptr ? std::nullopt : read_ids(*tokens);
  if (!ids) {
    return invalid_argument(
        fmt::format("expected token ids from 0 to {}", kMockVocabSize - 1), "tokens"
    );
  }
  std::string answer = R"({"prompt":")";
  for (const TokenId id : *ids) append_mock_token(id, answer);
  answer += "\"}";
  return answer;
}

std::string mock_error_body(int status, std::string_view message, std::string_view where) {
  json::object error = {
      {"message", message},
      {"type", status >= 500 ? "server_error" : "invalid_request_error"},
      {"param", nullptr},
      {"code", status},
  };
  if (!where.empty()) error["param"] = where;
  return to_json_text(json::object{{"error", std::move(error)}});
}

}  // namespace millrace::bench
