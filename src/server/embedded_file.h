// A file that is a part of the program: millrace_embed() in CMakeLists.txt makes them.
#pragma once

#include <span>
#include <string_view>

namespace millrace {

struct EmbeddedFile {
  std::string_view path;     // "/app.js": below its folder
  std::string_view content;  // not empty
  std::string_view sha256;   // of the content, in hexadecimal
};

// The files of src/server/page, in the order of their paths. Immutable, of static storage.
std::span<const EmbeddedFile> page_files();

}  // namespace millrace
