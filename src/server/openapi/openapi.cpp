#include "server/openapi/openapi.h"

#include "base/check.h"
#include "base/json.h"
#include "server/openapi/openapi_parts.h"

namespace millrace {
namespace {

json::object parse_part(std::string_view text) {
  Result<json::value> part = parse_json(text);
  CHECK(part.ok(), part.error().message);
  return std::move(part->as_object());
}

}  // namespace

std::string openapi_document(std::string_view version) {
  json::object document = parse_part(kOpenApiEndpoints);
  document["info"].as_object()["version"] = version;
  json::object schemas = parse_part(kOpenApiRequests);
  for (auto& [name, schema] : parse_part(kOpenApiAnswers)) {
    CHECK(!schemas.contains(name), "two schemas have one name");
    schemas[name] = std::move(schema);
  }
  document["components"].as_object()["schemas"] = std::move(schemas);
  return json::serialize(document);
}

}  // namespace millrace
