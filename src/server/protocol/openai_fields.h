// What the generating endpoints have in common: the model's name, how to generate, how to answer.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "server/protocol/generation_request.h"
#include "server/protocol/request_fields.h"

namespace millrace {

// "model": one of the served names; missing, it is the first of them (as in vLLM). kNotFound for
// another.
Result<std::string> read_model(RequestFields& fields, const RequestContext& context);

// A client's own id of its request: visible ASCII characters, at most 128. `path` names it.
Result<std::string> read_request_id(std::string_view path, const json::value& value);

// What the two OpenAI endpoints share, all but prompts and the number of tokens: model, streaming,
// generation fields, vLLM's extras.
Result<void> read_openai_fields(
    const json::object& body, const RequestContext& context, GenerationRequest& request
);

// "truncate_prompt_tokens", of which -1 asks for as many as leave room for `num_output_tokens`.
Result<void> read_truncation(
    RequestFields& fields,
    const RequestContext& context,
    int32_t num_output_tokens,
    GenerationRequest& request
);

// The field that holds the prompts, as the API names it: "prompt", "messages", "text" or
// "input_ids".
std::string_view prompt_field(const GenerationRequest& request);

// What can only be judged of the whole request: ranges, priority, the number of choices.
Result<void> check_request(const GenerationRequest& request, const RequestContext& context);

}  // namespace millrace
