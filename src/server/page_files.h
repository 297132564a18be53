// The built-in page's files as parts of the program.
#pragma once

#include <span>

#include "base/embedded_file.h"

namespace millrace {

// The files of src/server/page, in the order of their paths. Immutable, of static storage.
std::span<const EmbeddedFile> server_page_files();

}  // namespace millrace
