// Invariants that stay on in release: a broken one is a bug of ours, never a client's input.
#pragma once

#include <string_view>

namespace millrace {

// Logs the broken invariant to stderr and aborts; the supervisor restarts the process.
[[noreturn]] void check_failed(
    const char* file, int line, const char* condition, std::string_view message
);

}  // namespace millrace

// A macro because it quotes the condition and its place. `message` is evaluated only on failure.
#define CHECK(condition, message)                                          \
  do {                                                                     \
    if (!(condition)) [[unlikely]]                                         \
      ::millrace::check_failed(__FILE__, __LINE__, #condition, (message)); \
  } while (false)
