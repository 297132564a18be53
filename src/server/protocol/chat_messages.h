// The messages and tools of a chat, checked, and as chat templates expect them.
#pragma once

#include <optional>

#include "base/json.h"
#include "base/result.h"

namespace millrace {

// OpenAI's list of messages as a template's, the way vLLM prepares them: each content is one string
// (text parts are joined by newlines; null beside tool calls becomes ""), `developer` speaks as
// `system`, the arguments of tool calls are objects and no longer JSON text, and what only clients
// keep (refusal, annotations) is gone. The error's `where` is the JSON path.
Result<json::array> read_messages(json::value messages);

// The tools that the template sees: none if `tool_choice` forbids their use. Text is all that is
// generated, so a choice that promises a call is refused. `tools` and `tool_choice` may be null.
Result<std::optional<json::array>> read_tools(
    const json::value* tools, const json::value* tool_choice
);

}  // namespace millrace
