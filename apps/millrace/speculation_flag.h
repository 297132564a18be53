// `--speculative-config JSON`, with vLLM's keys: of every command that runs a model.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "command_line.h"
#include "sched/speculation.h"

namespace millrace {

void add_speculation_flag(CommandLine& line, std::optional<NgramSpeculation>& speculation);

// The flag's value. Refuses, by its key, what is unknown, missing, of the wrong type or out of
// range. As in vLLM, a prompt_lookup_* that is left out is the other one, or 5 if both are.
Result<NgramSpeculation> parse_speculative_config(const std::string& text);

}  // namespace millrace
