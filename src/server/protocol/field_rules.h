// The fields of each request body: OpenAI's, vLLM's and SGLang's, which of them are read, and which
// values of the others ask for nothing that this server does not do.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace millrace {

enum class BodyKind : uint32_t {
  kCompletion = 1 << 0,      // /v1/completions
  kChat = 1 << 1,            // /v1/chat/completions
  kNative = 1 << 2,          // /generate
  kNativeSampling = 1 << 3,  // sampling_params of /generate
  kTokenizeText = 1 << 4,    // /tokenize with a prompt
  kTokenizeChat = 1 << 5,    // /tokenize with messages
  kDetokenize = 1 << 6,      // /detokenize
  kAbort = 1 << 7,           // /abort_request
};

// Refuses a key that the body does not have (unknown_parameter), and a value of a known one that
// asks for what is not offered (unsupported_parameter) or is malformed. Fields that are read are
// left to their readers; null is never refused. `path` precedes the keys in an error's `where`.
Result<void> check_fields(const json::object& object, BodyKind kind, std::string_view path = {});

}  // namespace millrace
