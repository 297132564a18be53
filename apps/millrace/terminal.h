// What is said on stderr: best effort, since there may be nobody there to read it.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>

namespace millrace {

// Like print_stderr(...), but a closed or full stderr is no error and throws nothing.
template <class... Args>
void print_stderr(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace millrace
