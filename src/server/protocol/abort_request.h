// Reads the body of SGLang's /abort_request.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace {

struct AbortRequest {
  std::string request_id;  // as in GenerationRequest; empty only with abort_all
  bool abort_all = false;  // every request there is
};

// {"rid": "..."} or {"abort_all": true}. Pure; any thread.
Result<AbortRequest> read_abort_request(std::string_view body);

}  // namespace millrace
