// The files of a model directory, which may come from anyone: a name inside it must not lead out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace {

// A directory as it was found, its file names sorted.
struct ModelDirectory {
  std::string path;
  std::vector<std::string> file_names;

  bool has(std::string_view file_name) const;
  std::vector<std::string> names_ending_in(std::string_view suffix) const;
};

// kNotFound when there is no such directory. At most 10,000 entries are looked at.
Result<ModelDirectory> list_model_directory(const std::string& path);

// The path of a file that lies directly in the directory. Refused: "..", "/" and NUL in the name,
// an absolute name, and a symbolic link whose target lies outside the directory. One exception, so
// that Hugging Face's cache works as it lies on disk: `<model>/snapshots/<revision>/<file>` may be
// a link into `<model>/blobs/`.
Result<std::string> resolve_model_file(const std::string& directory, std::string_view file_name);

}  // namespace millrace
