#include "server/protocol/batch_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error_reason.h"
#include "base/json.h"
#include "server/field_error.h"
#include "server/protocol/json_text.h"

namespace millrace {
namespace {

constexpr std::string_view kIdPrefix = "batch_req_";
constexpr size_t kMessageBytesMax = 1000;

Result<Api> read_url(const json::object& object) {
  const json::value* url = object.if_contains("url");
  constexpr std::string_view kExpected = "/v1/chat/completions or /v1/completions";
  if (url == nullptr) return missing_field("url", kExpected);
  if (!url->is_string()) return wrong_type("url", kExpected, *url);
  const std::string_view path = url->get_string();
  if (path == "/v1/chat/completions") return Api::kChat;
  if (path == "/v1/completions") return Api::kCompletions;
  Error error = wrong_value("url", fmt::format("{}, not {}", kExpected, quoted(path)));
  error.reason = "invalid_url";
  return error;
}

// Where in `value` a number stands that no double holds: parsing made an infinity of it.
std::optional<std::string> path_of_infinity(const json::value& value) {
  if (const double* number = value.if_double()) {
    return std::isfinite(*number) ? std::nullopt : std::optional<std::string>("");
  }
  if (const json::object* object = value.if_object()) {
    for (const json::key_value_pair& entry : *object) {
      const std::optional<std::string> path = path_of_infinity(entry.value());
      if (path) return fmt::format(".{}{}", std::string_view(entry.key()), *path);
    }
  } else if (const json::array* array = value.if_array()) {
    for (size_t i = 0; i < array->size(); ++i) {
      const std::optional<std::string> path = path_of_infinity((*array)[i]);
      if (path) return fmt::format("[{}]{}", i, *path);
    }
  }
  return std::nullopt;
}

// All but the custom_id.
Result<void> read_request(json::object& object, BatchRequestLine& line) {
  constexpr std::array<std::string_view, 4> kKeys = {"custom_id", "method", "url", "body"};
  for (const json::key_value_pair& entry : object) {
    const std::string_view key = entry.key();
    if (std::ranges::find(kKeys, key) == kKeys.end()) return unknown_field(key);
  }
  const json::value* method = object.if_contains("method");
  if (method == nullptr) return missing_field("method", "POST");
  if (!method->is_string()) return wrong_type("method", "POST", *method);
  if (method->get_string() != "POST") {
    Error error = wrong_value("method", "POST");
    error.reason = "invalid_method";
    return error;
  }
  const Result<Api> api = read_url(object);
  if (!api) return api.error();
  line.api = *api;
  json::value* body = object.if_contains("body");
  if (body == nullptr) return missing_field("body", "an object");
  if (!body->is_object()) return wrong_type("body", "an object", *body);
  // As text it would become null, which asks for nothing.
  if (const std::optional<std::string> path = path_of_infinity(*body)) {
    return wrong_value("body" + *path, "a number that fits into 64 bits of floating point");
  }
  line.body = to_json_text(*body);
  return {};
}

Result<std::string> read_custom_id(const json::object& object) {
  const json::value* id = object.if_contains("custom_id");
  if (id == nullptr) return missing_field("custom_id", "a string");
  if (!id->is_string()) return wrong_type("custom_id", "a string", *id);
  const std::string_view text = id->get_string();
  if (!text.empty() && text.size() <= kCustomIdBytesMax) return std::string(text);
  return wrong_value("custom_id", fmt::format("1 to {} bytes long", kCustomIdBytesMax));
}

void append_head(const BatchAnswerName& name, std::string& out) {
  out += kBatchAnswerHead;
  append_json_integer(static_cast<int64_t>(name.line_number), out);
  out += "\",\"custom_id\":";
  if (name.custom_id) {
    append_json_string(*name.custom_id, out);
  } else {
    out += "null";
  }
}

Error no_answer(std::string_view what) {
  return invalid_argument(fmt::format("is no answer of a batch: {}", what));
}

Result<BatchAnswerName> read_name(const json::object& object) {
  const json::value* id = object.if_contains("id");
  const json::value* custom_id = object.if_contains("custom_id");
  if (id == nullptr || !id->is_string()) return no_answer("id must be a string");
  std::string_view text = id->get_string();
  BatchAnswerName name;
  const bool is_ours = text.starts_with(kIdPrefix);
  if (is_ours) text.remove_prefix(kIdPrefix.size());
  const char* const end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data(), end, name.line_number);
  if (!is_ours || ec != std::errc() || stop != end) {
    return no_answer("id must be batch_req_ and the number of a line");
  }
  if (custom_id == nullptr || !(custom_id->is_string() || custom_id->is_null())) {
    return no_answer("custom_id must be a string or null");
  }
  if (custom_id->is_string()) name.custom_id = std::string(custom_id->get_string());
  return name;
}

}  // namespace

BatchRequestLine read_batch_request(std::string_view text) {
  BatchRequestLine line;
  Result<json::value> value = parse_json(text);
  if (!value || !value->is_object()) {
    const std::string why = value ? "must be a JSON object" : value.error().message;
    line.error = invalid_argument("the line " + why, "", error_reason::kInvalidJson);
    if (!value) line.error->message = "the line is no JSON: " + why;
    return line;
  }
  json::object& object = value->get_object();
  Result<std::string> custom_id = read_custom_id(object);
  if (!custom_id) {
    line.error = custom_id.error();
    return line;
  }
  line.custom_id = *std::move(custom_id);
  if (auto read = read_request(object, line); !read) line.error = read.error();
  return line;
}

std::string batch_answer_line(
    const BatchAnswerName& name, int status, std::string_view request_id, std::string_view body
) {
  std::string line;
  line.reserve(body.size() + request_id.size() + 2 * kCustomIdBytesMax);
  append_head(name, line);
  line += ",\"response\":{\"status_code\":";
  append_json_integer(status, line);
  line += ",\"request_id\":";
  append_json_string(request_id, line);
  line += ",\"body\":";
  line += body;
  line += "},\"error\":null}\n";
  return line;
}

std::string batch_error_line(const BatchAnswerName& name, const Error& error) {
  std::string line;
  append_head(name, line);
  line += ",\"response\":null,\"error\":{\"code\":";
  append_json_string(error.reason.empty() ? error_reason::kInvalidValue : error.reason, line);
  line += ",\"message\":";
  append_json_string(cut_text(error.message, kMessageBytesMax), line);
  line += "}}\n";
  return line;
}

Result<BatchAnswerLine> read_batch_answer(std::string_view text) {
  // In a list of logprobs several tokens may have one text, which is their key.
  const Result<json::value> value = parse_json(text, {.allow_duplicate_keys = true});
  if (!value || !value->is_object()) return no_answer("a JSON object was expected");
  const json::object& object = value->get_object();
  Result<BatchAnswerName> name = read_name(object);
  if (!name) return name.error();
  const json::value* response = object.if_contains("response");
  const json::value* error = object.if_contains("error");
  if (response == nullptr || error == nullptr || response->is_object() == error->is_object()) {
    return no_answer("either response or error must be an object");
  }
  BatchAnswerLine line{.name = *std::move(name), .is_failed = error->is_object()};
  if (line.is_failed) return line;
  const json::value* status = response->get_object().if_contains("status_code");
  if (status == nullptr || !status->is_int64()) {
    return no_answer("response.status_code must be an integer");
  }
  line.is_failed = status->get_int64() != 200;
  return line;
}

}  // namespace millrace
