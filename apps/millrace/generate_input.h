// What `millrace generate` is asked: prompts and sampling fields from flags and JSONL lines.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "batch_run.h"
#include "command_line.h"
#include "server/local_model.h"

namespace millrace {

struct InputFlags {
  std::vector<std::string> prompts;
  std::string input;    // a JSONL file, or "-" for stdin
  bool raw = false;     // --prompt is plain text, also for a chat model
  json::object fields;  // the sampling flags that were given, as a request would state them
};

// --prompt, --input, --raw, and a flag for each sampling field.
void add_input_flags(CommandLine& line, InputFlags& flags);

// One prompt: an object with prompt, prompt_token_ids or messages, and fields; or why it is none.
struct InputLine {
  json::object object;
  bool is_chat_turn = false;  // its prompt is one turn of a chat, where the model has a template
  std::optional<Error> error;
};

// Every prompt of the flags, or every line of the file. A bad line becomes an error of its own.
Result<std::vector<InputLine>> read_input(const InputFlags& flags);

// The token ids and parameters of one line. The author's defaults come first, then flags, then the
// line's own fields. Where nothing gives a temperature, the choice is greedy.
BatchItem prepare(
    const InputLine& line,
    const LocalModel& model,
    const InputFlags& flags,
    std::chrono::local_seconds now
);

}  // namespace millrace
