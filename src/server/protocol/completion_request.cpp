#include "server/protocol/completion_request.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error_reason.h"
#include "server/field_error.h"
#include "server/protocol/field_rules.h"
#include "server/protocol/openai_fields.h"
#include "server/protocol/prompt_list.h"
#include "server/protocol/request_fields.h"

namespace millrace {
namespace {

constexpr int32_t kMaxTokensDefault = 16;
constexpr int32_t kBestOfMax = 20;

Result<void> read_prompt_field(
    RequestFields& fields, const RequestContext& context, GenerationRequest& request
) {
  const json::value* prompt = fields.find("prompt");
  if (prompt == nullptr) return missing_field("prompt", "a string, or a list of strings or tokens");
  Result<PromptList> list =
      read_prompts("prompt", *prompt, context.num_prompts_max, context.limits.vocab_size);
  if (!list) return list.error();
  request.prompts = std::move(list->prompts);
  request.is_prompt_list = list->is_list;
  return {};
}

// `logprobs` counts here; in chats it is a switch.
void check_logprobs(RequestFields& fields, SamplingParams& sampling, bool is_echo) {
  const json::value* logprobs = fields.find("logprobs");
  if (logprobs == nullptr) return;
  if (logprobs->is_bool()) return fields.refuse(wrong_type("logprobs", "an integer", *logprobs));
  // The echoed prompt has logprobs like the text that follows it.
  if (is_echo && !sampling.prompt_logprobs) sampling.prompt_logprobs = sampling.logprobs;
}

// Only as many choices are generated as are returned.
void check_best_of(RequestFields& fields, int32_t n) {
  const std::optional<int32_t> best_of = fields.integer("best_of", {.min = 0, .max = kBestOfMax});
  if (!best_of || *best_of == n) return;
  if (*best_of < n) return fields.refuse(wrong_value("best_of", "at least n"));
  fields.refuse(unsupported_field("best_of", "it can only be n"));
}

void read_max_tokens(RequestFields& fields, GenerationRequest& request) {
  request.max_tokens =
      fields.integer("max_tokens", {.min = 0, .max = std::numeric_limits<int32_t>::max()});
  if (request.max_tokens == 0 && !request.fields.echo) {
    fields.refuse(invalid_argument(
        "max_tokens must be at least 1, or 0 with echo",
        "max_tokens",
        error_reason::kIntegerBelowMin
    ));
  }
  request.max_tokens_default = kMaxTokensDefault;
  request.fields.sampling.max_tokens = std::max(request.max_tokens.value_or(kMaxTokensDefault), 1);
}

}  // namespace

Result<GenerationRequest> read_completion_request(
    std::string_view body, const RequestContext& context
) {
  Result<json::object> object = parse_body(body);
  if (!object) return object.error();
  if (auto known = check_fields(*object, BodyKind::kCompletion); !known) return known.error();
  GenerationRequest request{.api = Api::kCompletions};
  request.fields.continues_prompt = true;
  if (auto read = read_openai_fields(*object, context, request); !read) return read.error();
  RequestFields fields(*object);
  check_logprobs(fields, request.fields.sampling, request.fields.echo);
  check_best_of(fields, request.fields.sampling.n);
  read_max_tokens(fields, request);
  request.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  if (auto read = read_truncation(fields, context, request.fields.sampling.max_tokens, request);
      !read) {
    return read.error();
  }
  if (auto read = read_prompt_field(fields, context, request); !read) return read.error();
  if (auto checked = check_request(request, context); !checked) return checked.error();
  return request;
}

}  // namespace millrace
