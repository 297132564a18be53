// What a MODEL on the command line means: a path, or the name of the default model.
#pragma once

#include <string>

#include "base/result.h"

namespace millrace {

inline constexpr const char* kDefaultModel = "smollm2";

// The path of MODEL: a directory or a .gguf file that exists, else "smollm2" in the user's cache
// folder
// ($MILLRACE_CACHE, else $XDG_CACHE_HOME/millrace, else ~/.cache/millrace). The error says what to
// run to get the default model.
Result<std::string> locate_model(const std::string& model);

}  // namespace millrace
