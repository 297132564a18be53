#include "server/protocol/abort_request.h"

#include <utility>

#include "server/field_error.h"
#include "server/protocol/field_rules.h"
#include "server/protocol/openai_fields.h"
#include "server/protocol/request_fields.h"

namespace millrace {

Result<AbortRequest> read_abort_request(std::string_view body) {
  const Result<json::object> object = parse_body(body);
  if (!object) return object.error();
  if (auto known = check_fields(*object, BodyKind::kAbort); !known) return known.error();
  RequestFields fields(*object);
  AbortRequest request{.abort_all = fields.boolean("abort_all").value_or(false)};
  if (auto read = fields.result(); !read) return read.error();
  const json::value* rid = fields.find("rid");
  // SGLang's clients send an empty one with abort_all.
  const bool is_given = rid != nullptr && !(request.abort_all && *rid == "");
  if (!is_given) {
    if (request.abort_all) return request;
    return missing_field("rid", "the id of a request, or abort_all");
  }
  Result<std::string> id = read_request_id("rid", *rid);
  if (!id) return id.error();
  request.request_id = *std::move(id);
  return request;
}

}  // namespace millrace
