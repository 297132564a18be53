#include "server/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/check.h"
#include "server/page_files.h"

namespace millrace {
namespace {

constexpr std::string_view kIndex = "/index.html";

constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string_view content_type_of(std::string_view path) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kTypes = {{
      {".html", "text/html; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".svg", "image/svg+xml"},
  }};
  const auto* type =
      std::ranges::find_if(kTypes, [&](const auto& entry) { return path.ends_with(entry.first); });
  CHECK(type != kTypes.end(), "a file of the page has an ending that is not in the table");
  return type->second;
}

// RFC 9110, 13.1.2: a list of tags, or "*". A weak tag matches too.
bool matches(std::string_view if_none_match, std::string_view tag) {
  while (!if_none_match.empty()) {
    const size_t comma = std::min(if_none_match.find(','), if_none_match.size());
    std::string_view entry = if_none_match.substr(0, comma);
    if_none_match.remove_prefix(std::min(comma + 1, if_none_match.size()));
    entry.remove_prefix(std::min(entry.find_first_not_of(" \t"), entry.size()));
    entry = entry.substr(0, entry.find_last_not_of(" \t") + 1);
    if (entry.starts_with("W/")) entry.remove_prefix(2);
    if (entry == "*" || entry == tag) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string_view> page_paths() {
  std::vector<std::string_view> paths;
  for (const EmbeddedFile& file : server_page_files()) {
    paths.push_back(file.path == kIndex ? "/" : file.path);
  }
  return paths;
}

std::optional<http::Response> page_file(
    std::string_view path, std::optional<std::string_view> if_none_match
) {
  if (path == kIndex) return std::nullopt;  // one place, one name
  const auto files = server_page_files();
  const auto file = std::ranges::find(files, path == "/" ? kIndex : path, &EmbeddedFile::path);
  if (file == files.end()) return std::nullopt;

  const std::string tag = fmt::format("\"{}\"", file->sha256.substr(0, 16));
  http::Response response;
  response.headers = {
      {"content-type", std::string(content_type_of(file->path))},
      {"cache-control", "no-cache"},
      {"etag", tag},
      {"content-security-policy", std::string(kPolicy)},
      {"x-content-type-options", "nosniff"},
      {"referrer-policy", "no-referrer"},
  };
  if (if_none_match && matches(*if_none_match, tag)) {
    response.status = 304;
  } else {
    response.body = file->content;
  }
  return response;
}

}  // namespace millrace
