// A chat as request bodies state it, with what they say about its template.
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "text/chat_template.h"

namespace millrace {

// "messages" and, where they are there, "tools", "tool_choice", "parallel_tool_calls", "documents",
// "chat_template_kwargs", "reasoning_effort", "add_generation_prompt" and "continue_final_message";
// other keys are the caller's. Takes the messages out of `body`. `now` is left to the renderer. The
// error's `where` is the JSON path.
Result<ChatInput> read_chat_input(json::object& body);

}  // namespace millrace
