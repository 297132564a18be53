// Reads the body of OpenAI's /v1/completions, with vLLM's additions.
// https://platform.openai.com/docs/api-reference/completions
#pragma once

#include <string_view>

#include "base/result.h"
#include "server/protocol/generation_request.h"

namespace millrace {

// Every field is honoured or refused by name. The error's `where` is the JSON path, its `reason`
// OpenAI's error code. Pure; any thread.
Result<GenerationRequest> read_completion_request(
    std::string_view body, const RequestContext& context
);

}  // namespace millrace
