// The server's endpoints, by what they are about. Each function adds its routes; the handlers use
// `state`, which outlives the router.
#pragma once

#include <functional>

#include "base/result.h"
#include "http/router.h"
#include "server/api_state.h"

namespace millrace {

// What is said when the text workers have too much to do.
Error overloaded();

// /v1/completions, /v1/chat/completions, /generate, /abort_request.
Result<void> add_generation_routes(http::Router& router, ApiState& state);

// Whether calls of this route generate: the log tells of each (--enable-log-requests).
bool generates(const http::Route& route);

// /tokenize, /detokenize.
Result<void> add_text_routes(http::Router& router, ApiState& state);

// What a client may ask about the server: models, versions, metrics, health, its own description,
// the page; and /flush_cache and /reset_prefix_cache.
using CountersReader = std::function<http::CountersSnapshot()>;
Result<void> add_info_routes(http::Router& router, ApiState& state, CountersReader counters);

}  // namespace millrace
