#include "server/protocol/chat_request.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "server/field_error.h"
#include "server/protocol/chat_input.h"
#include "server/protocol/field_rules.h"
#include "server/protocol/openai_fields.h"
#include "server/protocol/request_fields.h"

namespace millrace {
namespace {

// `logprobs` is a switch here, and `top_logprobs` counts.
void check_logprobs(RequestFields& fields, SamplingParams& sampling) {
  const json::value* logprobs = fields.find("logprobs");
  if (logprobs != nullptr && !logprobs->is_bool()) {
    return fields.refuse(wrong_type("logprobs", "true or false", *logprobs));
  }
  if (logprobs != nullptr && logprobs->get_bool()) return;
  const json::value* count = fields.find("top_logprobs");
  if (count != nullptr && *count != 0) {
    return fields.refuse(wrong_value("top_logprobs", "left out without logprobs"));
  }
  sampling.logprobs.reset();
}

void read_max_tokens(
    RequestFields& fields, const RequestContext& context, GenerationRequest& request
) {
  constexpr Int32Range kRange{.min = 1};
  const std::optional<int32_t> old_name = fields.integer("max_tokens", kRange);
  request.max_tokens = fields.integer("max_completion_tokens", kRange);
  if (old_name && request.max_tokens && *old_name != *request.max_tokens) {
    fields.refuse(wrong_value("max_tokens", "left out, or the same as max_completion_tokens"));
  }
  if (!request.max_tokens) request.max_tokens = old_name;
  // OpenAI's default: as much as fits.
  request.max_tokens_default =
      context.defaults.max_new_tokens.value_or(std::max(context.limits.num_sequence_tokens_max, 1));
  request.fields.sampling.max_tokens = request.max_tokens.value_or(request.max_tokens_default);
}

// Errors are worded with the fields' usual names.
Error in_chat_words(Error error) {
  if (error.where != "logprobs") return error;
  error.where = "top_logprobs";
  if (error.message.starts_with("logprobs")) error.message.insert(0, "top_");
  return error;
}

}  // namespace

Result<GenerationRequest> read_chat_request(std::string_view body, const RequestContext& context) {
  Result<json::object> object = parse_body(body);
  if (!object) return object.error();
  if (auto known = check_fields(*object, BodyKind::kChat); !known) return known.error();
  GenerationRequest request{.api = Api::kChat};
  if (auto read = read_openai_fields(*object, context, request); !read) return read.error();
  RequestFields fields(*object);
  check_logprobs(fields, request.fields.sampling);
  read_max_tokens(fields, context, request);
  // Templates write the special tokens themselves.
  request.add_special_tokens = fields.boolean("add_special_tokens").value_or(false);
  if (auto read = read_truncation(fields, context, request.max_tokens.value_or(1), request);
      !read) {
    return read.error();
  }
  Result<ChatInput> chat = read_chat_input(*object);
  if (!chat) return chat.error();
  request.prompts.emplace_back(*std::move(chat));
  if (auto checked = check_request(request, context); !checked) {
    return in_chat_words(checked.error());
  }
  return request;
}

}  // namespace millrace
