// A file that is a part of the program: millrace_embed() (cmake/MillraceTargets.cmake) makes them.
#pragma once

#include <string_view>

namespace millrace {

struct EmbeddedFile {
  std::string_view path;     // "/app.js": below its folder
  std::string_view content;  // not empty
  std::string_view sha256;   // of the content, in hexadecimal
};

}  // namespace millrace
