// Reads the body of SGLang's native /generate: text or input_ids, and sampling_params.
#pragma once

#include <string_view>

#include "base/result.h"
#include "server/protocol/generation_request.h"

namespace millrace {

// Every field is honoured or refused by name. The error's `where` is the JSON path, its `reason`
// OpenAI's error code. Pure; any thread.
Result<GenerationRequest> read_native_request(std::string_view body, const RequestContext& context);

}  // namespace millrace
