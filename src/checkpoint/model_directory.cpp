#include "checkpoint/model_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "checkpoint/printable.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr size_t kEntriesMax = 10'000;

bool is_plain_name(std::string_view name) {
  if (name.empty() || name == "." || name == "..") return false;
  return name.find('/') == std::string_view::npos && name.find('\\') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos && name.size() <= 255;
}

// Whether `target`, both canonical, may stand for a file of `directory`.
bool is_inside(const fs::path& target, const fs::path& directory) {
  const auto [rest, unused] =
      std::mismatch(directory.begin(), directory.end(), target.begin(), target.end());
  return rest == directory.end();
}

bool is_in_cache_blobs(const fs::path& target, const fs::path& directory) {
  const fs::path snapshots = directory.parent_path();
  return snapshots.filename() == "snapshots" &&
         target.parent_path() == snapshots.parent_path() / "blobs";
}

}  // namespace

bool ModelDirectory::has(std::string_view file_name) const {
  return std::binary_search(file_names.begin(), file_names.end(), file_name);
}

std::vector<std::string> ModelDirectory::names_ending_in(std::string_view suffix) const {
  std::vector<std::string> names;
  for (const std::string& name : file_names) {
    if (name.ends_with(suffix)) names.push_back(name);
  }
  return names;
}

Result<ModelDirectory> list_model_directory(const std::string& path) {
  std::error_code ec;
  fs::directory_iterator entries(path, ec);
  if (ec) {
    return not_found(
        fmt::format("cannot list the model directory '{}': {}", printable(path), ec.message()), path
    );
  }
  ModelDirectory directory{.path = path, .file_names = {}};
  while (entries != fs::directory_iterator()) {
    if (directory.file_names.size() == kEntriesMax) {
      return invalid_argument(
          fmt::format("'{}' holds more than {} files", printable(path), kEntriesMax), path
      );
    }
    directory.file_names.push_back(entries->path().filename().string());
    entries.increment(ec);
    if (ec) {
      return invalid_argument(
          fmt::format("cannot list the model directory '{}': {}", printable(path), ec.message()),
          path
      );
    }
  }
  std::sort(directory.file_names.begin(), directory.file_names.end());
  return directory;
}

Result<std::string> resolve_model_file(const std::string& directory, std::string_view file_name) {
  if (!is_plain_name(file_name)) {
    return invalid_argument(
        fmt::format(
            "'{}' is not the plain name of a file in the model directory", printable(file_name)
        ),
        printable(file_name)
    );
  }
  std::error_code ec;
  const fs::path root = fs::canonical(directory, ec);
  if (ec) {
    return not_found(
        fmt::format("no model directory '{}': {}", printable(directory), ec.message()), directory
    );
  }
  const fs::path target = fs::canonical(root / file_name, ec);
  if (ec) {
    return not_found(
        fmt::format(
            "'{}' is missing in '{}': {}", printable(file_name), printable(directory), ec.message()
        ),
        printable(file_name)
    );
  }
  if (!is_inside(target, root) && !is_in_cache_blobs(target, root)) {
    return invalid_argument(
        fmt::format("'{}' is a link that leaves the model directory", printable(file_name)),
        printable(file_name)
    );
  }
  return target.string();
}

}  // namespace millrace
