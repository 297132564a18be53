// The server's description of itself for /openapi.json: OpenAPI 3.1, https://spec.openapis.org.
#pragma once

#include <string>
#include <string_view>

namespace millrace {

// The whole document, with the server's version in it. Takes a millisecond: for the start.
std::string openapi_document(std::string_view version);

}  // namespace millrace
