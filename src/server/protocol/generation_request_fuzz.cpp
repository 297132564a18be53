// Any bytes as the body of a request: each endpoint reads it or answers with one well-formed error.
// The first byte chooses the endpoint, so that the corpus grows for all of them.
#include <cstdint>
#include <iterator>
#include <string_view>

#include "base/check.h"
#include "server/protocol/request_cases.h"

namespace {

using namespace millrace;

// What the rest of the server relies on.
void check_read(const GenerationRequest& request) {
  const EngineLimits& limits = small_context().limits;
  CHECK(!request.prompts.empty(), "a request without a prompt");
  CHECK(request.api != Api::kChat || request.prompts.size() == 1, "a chat with several prompts");
  CHECK(request.num_choices() <= limits.max_num_live_seqs, "too many choices");
  CHECK(request.max_tokens.value_or(1) > 0 || request.fields.echo, "nothing to do");
  for (const PromptInput& prompt : request.prompts) {
    const auto* ids = std::get_if<std::vector<TokenId>>(&prompt);
    if (ids == nullptr) continue;
    CHECK(!ids->empty(), "an empty prompt");
    for (const TokenId id : *ids) CHECK(id >= 0 && id < limits.vocab_size, "no token");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Endpoint endpoint = kEndpoints[data[0] % std::size(kEndpoints)];
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (const std::optional<Error> error = refusal(endpoint, body)) {
    const ApiError answer = to_api_error(*error);
    CHECK(answer.status == 400 || answer.status == 404, "a client's error is not ours");
    const std::string fault = fault_of_error_body(answer);
    CHECK(fault.empty(), fault);
    return 0;
  }
  const RequestContext& context = small_context();
  if (endpoint == Endpoint::kCompletions) check_read(*read_completion_request(body, context));
  if (endpoint == Endpoint::kChat) check_read(*read_chat_request(body, context));
  if (endpoint == Endpoint::kGenerate) check_read(*read_native_request(body, context));
  return 0;
}
