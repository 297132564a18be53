// How a command ends: silently, or with one line that says why.
#pragma once

#include <fmt/format.h>

#include <cstdio>

#include "base/result.h"

namespace millrace {

// The exit code of a command: 0, or 1 after "millrace COMMAND: what is wrong" on stderr.
inline int report(const char* command, const Result<void>& result) {
  if (result) return 0;
  fmt::print(stderr, "millrace {}: {}\n", command, result.error().message);
  return 1;
}

}  // namespace millrace
