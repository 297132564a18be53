// The requests that the load consists of, as they go over the wire.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "bench/scenario.h"
#include "http/address.h"

namespace millrace::bench {

struct GenerationShape {
  bool is_chat = false;
  bool is_stream = false;
  int64_t num_output_tokens = 0;
};

// A completion or chat of about 32 prompt tokens that generates exactly so many. A stream asks for
// its usage at the end.
std::string generation_request(std::string_view model, const GenerationShape& shape);

// The same without its last brace: what a client sends whose JSON is broken.
std::string broken_request(std::string_view model);

std::string get_request(std::string_view path);

// Sends one request on a connection of its own and gives the body of its answer, which must have
// this status.
Result<std::string> fetch(
    const http::Address& address, std::string_view request, int expected_status
);

}  // namespace millrace::bench
