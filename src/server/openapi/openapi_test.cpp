#include "server/openapi/openapi.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "base/json.h"
#include "server/generation_fields.h"

namespace millrace {
namespace {

const json::value& document() {
  static const json::value parsed = [] {
    Result<json::value> value = parse_json(openapi_document("1.2.3"));
    CHECK(value.ok(), value.error().message);
    return *value;
  }();
  return parsed;
}

// Calls `visit` with each object in `value`, itself among them.
void each_object(const json::value& value, const std::function<void(const json::object&)>& visit) {
  if (const json::array* array = value.if_array()) {
    for (const json::value& element : *array) each_object(element, visit);
  } else if (const json::object* object = value.if_object()) {
    visit(*object);
    for (const auto& [key, member] : *object) each_object(member, visit);
  }
}

// What "#/a/b" points to; null: nothing.
const json::value* resolve(std::string_view reference) {
  if (!reference.starts_with("#/")) return nullptr;
  boost::system::error_code ec;
  return document().find_pointer(reference.substr(1), ec);
}

std::set<std::string> references_in(const json::value& value) {
  std::set<std::string> references;
  each_object(value, [&](const json::object& object) {
    if (const json::value* reference = object.if_contains("$ref")) {
      references.emplace(reference->as_string());
    }
  });
  return references;
}

const json::object& schema(std::string_view name) {
  return document().at("components").at("schemas").at(name).as_object();
}

TEST(OpenApi, NamesItsVersionAndTheServers) {
  EXPECT_EQ(document().at("openapi"), json::value("3.1.0"));
  EXPECT_EQ(document().at("info").at("version"), json::value("1.2.3"));
  EXPECT_FALSE(document().at("info").at("title").as_string().empty());
}

TEST(OpenApi, EveryReferenceLeadsSomewhere) {
  const std::set<std::string> references = references_in(document());
  EXPECT_GT(references.size(), 20U);
  for (const std::string& reference : references) {
    EXPECT_NE(resolve(reference), nullptr) << reference;
  }
}

TEST(OpenApi, EverySchemaIsUsed) {
  const std::set<std::string> references = references_in(document());
  for (const auto& [name, unused] : document().at("components").at("schemas").as_object()) {
    EXPECT_TRUE(references.contains("#/components/schemas/" + std::string(name))) << name;
  }
}

TEST(OpenApi, HasEveryEndpoint) {
  const json::object& paths = document().at("paths").as_object();
  const std::vector<std::pair<std::string, std::string>> endpoints = {
      {"/v1/completions", "post"},
      {"/v1/chat/completions", "post"},
      {"/v1/models", "get"},
      {"/v1/models/{model}", "get"},
      {"/tokenize", "post"},
      {"/detokenize", "post"},
      {"/generate", "post"},
      {"/server_info", "get"},
      {"/model_info", "get"},
      {"/flush_cache", "post"},
      {"/reset_prefix_cache", "post"},
      {"/abort_request", "post"},
      {"/health", "get"},
      {"/livez", "get"},
      {"/readyz", "get"},
      {"/version", "get"},
      {"/metrics", "get"},
      {"/openapi.json", "get"},
      {"/", "get"},
  };
  EXPECT_EQ(paths.size(), endpoints.size());
  for (const auto& [path, method] : endpoints) {
    ASSERT_TRUE(paths.contains(path)) << path;
    EXPECT_TRUE(paths.at(path).as_object().contains(method)) << path;
  }
}

TEST(OpenApi, EveryOperationHasAnIdOfItsOwnAndResponses) {
  std::set<std::string> ids;
  for (const auto& [path, item] : document().at("paths").as_object()) {
    for (const auto& [method, operation] : item.as_object()) {
      EXPECT_TRUE(ids.emplace(operation.at("operationId").as_string()).second) << path;
      EXPECT_FALSE(operation.at("summary").as_string().empty()) << path;
      const json::object& responses = operation.at("responses").as_object();
      ASSERT_TRUE(responses.contains("200")) << path;
      for (const auto& [status, response] : responses) {
        const bool is_described =
            response.as_object().contains("description") || response.as_object().contains("$ref");
        EXPECT_TRUE(is_described) << path << " " << status;
      }
      const bool has_body = operation.as_object().contains("requestBody");
      EXPECT_FALSE(has_body && method != "post") << path;
    }
  }
}

TEST(OpenApi, EveryParameterOfAPathIsDescribed) {
  const json::value& operation = document().at("paths").at("/v1/models/{model}").at("get");
  ASSERT_EQ(operation.at("parameters").as_array().size(), 1U);
  EXPECT_EQ(operation.at("parameters").at(0).at("name"), json::value("model"));
  EXPECT_EQ(operation.at("parameters").at(0).at("in"), json::value("path"));
}

TEST(OpenApi, RequiredPropertiesAreDescribed) {
  each_object(document().at("components").at("schemas"), [](const json::object& object) {
    const json::value* required = object.if_contains("required");
    if (required == nullptr || !required->is_array()) return;
    ASSERT_TRUE(object.contains("properties")) << json::serialize(object);
    for (const json::value& name : required->as_array()) {
      EXPECT_TRUE(object.at("properties").as_object().contains(name.as_string()))
          << json::serialize(object);
    }
  });
}

TEST(OpenApi, TheOpenAiRequestsDescribeEveryGenerationField) {
  std::set<std::string> described;
  for (const std::string_view name :
       {"CommonFields", "CompletionRequest", "ChatCompletionRequest"}) {
    for (const auto& [field, unused] : schema(name).at("properties").as_object()) {
      described.emplace(field);
    }
  }
  // All that the one parser of generation fields knows, by asking it for each name.
  for (const char* field :
       {"temperature",
        "top_k",
        "top_p",
        "min_p",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "logit_bias",
        "allowed_token_ids",
        "bad_words",
        "max_tokens",
        "min_tokens",
        "ignore_eos",
        "stop_token_ids",
        "stop",
        "include_stop_str_in_output",
        "skip_special_tokens",
        "n",
        "top_logprobs",
        "logprobs",
        "prompt_logprobs",
        "echo",
        "priority",
        "timeout_s"}) {
    ASSERT_TRUE(is_generation_field(field)) << field;
    EXPECT_TRUE(described.contains(field)) << field;
  }
}

}  // namespace
}  // namespace millrace
