// `--record FILE`, of the commands that run an engine: a recording for `millrace replay`.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "command_line.h"
#include "engine/step_engine.h"

namespace millrace {

void add_record_flag(CommandLine& line, std::string& path);

// Has the engine recorded to a new file that nobody else may read; nothing happens if `path` is
// empty. `warn` is called once, on the engine's thread, if the file cannot be written any more: the
// recording ends there, and the engine goes on.
Result<void> record_steps(
    const std::string& path, std::function<void(std::string_view)> warn, EngineConfig& engine
);

}  // namespace millrace
