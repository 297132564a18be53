// What the mock server reads of a request's body. Bodies come from outside: bounded, and what is
// not understood is refused by name. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace::bench {

enum class MockApi { kCompletions, kChat, kGenerate };

struct MockRequest {
  MockApi api = MockApi::kCompletions;
  int64_t num_prompt_tokens = 0;
  int64_t num_tokens_asked = 0;
  bool is_streamed = false;
  bool includes_usage = false;
  bool wants_usage_deltas = false;
  bool returns_token_ids = false;
};

// `model`: whose name a request may give. Errors: kNotFound for another model, kInvalidArgument;
// `where` is the field.
Result<MockRequest> read_mock_request(MockApi api, std::string_view body, std::string_view model);

// The bodies of /tokenize and /detokenize to those of the answers, in vLLM's shapes.
Result<std::string> mock_tokenize(std::string_view body);
Result<std::string> mock_detokenize(std::string_view body);

// {"error": {"message", "type", "param", "code"}}
std::string mock_error_body(int status, std::string_view message, std::string_view where);

}  // namespace millrace::bench
