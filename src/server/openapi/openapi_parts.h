// The JSON texts that the OpenAPI document is put together from.
#pragma once

#include <string_view>

namespace millrace {

extern const std::string_view kOpenApiEndpoints;  // the document without its schemas
extern const std::string_view kOpenApiRequests;   // an object of schemas
extern const std::string_view kOpenApiAnswers;    // an object of schemas

}  // namespace millrace
