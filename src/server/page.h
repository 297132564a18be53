// The built-in page: a chat and live metrics, for whoever opens the server's address in a browser.
// Its files lie in server/page/ and are a part of the program. Pure; any thread.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "http/response.h"

namespace millrace {

// Every path that page_file() knows: "/", "/app.js", ... They hold nothing that needs a key, and
// the page itself asks for one: their routes are public.
std::vector<std::string_view> page_paths();

// The file at a path, or nullopt where there is none. It may be kept by browsers but is asked for
// each time (ETag), so that a new server is a new page; `if_none_match` is the request's field of
// that name: 304 where the browser has this very file. The policy lets the page load scripts,
// styles and data from its own server only, and none that stand in the HTML
// (https://www.w3.org/TR/CSP3/).
std::optional<http::Response> page_file(
    std::string_view path, std::optional<std::string_view> if_none_match = std::nullopt
);

}  // namespace millrace
