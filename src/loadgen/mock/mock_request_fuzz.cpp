// Any bytes as a body for the mock server: what it accepts lies within its bounds.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "loadgen/mock/mock_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace::bench;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const MockApi api : {MockApi::kCompletions, MockApi::kChat, MockApi::kGenerate}) {
    const auto request = read_mock_request(api, body, "mock");
    if (!request) continue;
    CHECK(request->num_prompt_tokens >= 0, "a prompt has a length");
    CHECK(request->num_tokens_asked >= 0, "an answer has a length");
  }
  static_cast<void>(mock_tokenize(body));
  static_cast<void>(mock_detokenize(body));
  return 0;
}
