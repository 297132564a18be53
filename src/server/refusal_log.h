// What the log says of a request that was refused. Pure but for the log.
#pragma once

#include <vector>

#include "base/log.h"
#include "http/request.h"
#include "server/protocol/api_error.h"

namespace millrace {

// The status, the code, the param where there is one, and the message, as the client got them.
// `error` is borrowed by the fields.
void append_error_fields(const ApiError& error, std::vector<LogField>& fields);

// One line, level info, for a request that was refused before it became a call.
void log_refusal(Log& log, const http::Request& request, const ApiError& error);

}  // namespace millrace
