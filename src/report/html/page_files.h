// The sources of a report's page as parts of the program.
#pragma once

#include <span>

#include "base/embedded_file.h"

namespace millrace {

// The files of src/report/page, in the order of their paths. Immutable, of static storage.
std::span<const EmbeddedFile> report_page_files();

}  // namespace millrace
