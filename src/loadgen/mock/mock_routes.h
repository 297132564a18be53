// What the mock server answers at once: everything but tokens. Pure but for the state's counters.
#pragma once

#include <optional>

#include "http/request.h"
#include "http/response.h"
#include "loadgen/mock/mock_request.h"
#include "loadgen/mock/mock_state.h"

namespace millrace::bench {

// The API that `path` belongs to; none: not one that gives tokens.
std::optional<MockApi> mock_api_of(std::string_view path);

// 401 where a key is needed and was not given.
std::optional<http::Response> check_mock_key(
    const MockOptions& options, const http::Request& request
);

http::Response mock_error(int status, std::string_view message, std::string_view where = "");
http::Response mock_error(const Error& error);

// Any request that asks for no tokens, also for what is not there.
http::Response answer_mock_request(MockState& state, const http::Request& request);

}  // namespace millrace::bench
