// How a command ends: silently, or with one line that says why.
#pragma once

#include <fmt/format.h>

#include <cstdio>

#include "base/result.h"
#include "terminal.h"

namespace millrace {

// The exit code of a command: 0, or, after "millrace COMMAND: what is wrong" on stderr, 2 where a
// flag is at fault and 1 for all else.
inline int report(const char* command, const Result<void>& result) {
  if (result) return 0;
  print_stderr("millrace {}: {}\n", command, result.error().message);
  return result.error().where.starts_with("--") ? 2 : 1;
}

}  // namespace millrace
