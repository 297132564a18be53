// From a template's source to its program, with Jinja 3.1's grammar (trim_blocks, lstrip_blocks,
// break and continue, and {% generation %}, as Hugging Face's environment has it).
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/limits.h"

namespace millrace::jinja {

// Refuses include, import, from, extends, block and autoescape by name: a chat template is one
// file. The error's `where` names the line.
Result<Program> parse_program(std::string_view source, const Limits& limits);

}  // namespace millrace::jinja
