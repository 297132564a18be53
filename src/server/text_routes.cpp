#include <memory>
#include <string_view>
#include <utility>

#include "server/protocol/api_error.h"
#include "server/protocol/tokenize_request.h"
#include "server/routes.h"

namespace millrace {
namespace {

using ExchangePtr = std::shared_ptr<http::Exchange>;
using Answer = Result<std::string> (*)(const Serving& serving, std::string_view body);

Result<std::string> tokenize(const Serving& serving, std::string_view body) {
  const Result<TokenizeRequest> request = read_tokenize_request(body, serving.request_context);
  if (!request) return request.error();
  return tokenize_answer(
      *request,
      serving.model.text,
      serving.model.engine->limits().num_sequence_tokens_max,
      serving.local_now()
  );
}

Result<std::string> detokenize(const Serving& serving, std::string_view body) {
  const Result<DetokenizeRequest> request = read_detokenize_request(body, serving.request_context);
  if (!request) return request.error();
  return detokenize_answer(*request, serving.model.text);
}

// Always on a text worker: a body may be megabytes of text.
void answer(const ApiState& state, const ExchangePtr& exchange, Answer make_answer) {
  if (const auto refusal = http::check_json_content_type(exchange->request())) {
    exchange->respond(render_refusal(*refusal));
    return;
  }
  Serving& serving = *state.serving();
  const auto task = [&serving, exchange, make_answer] {
    if (exchange->is_client_gone()) return;
    Result<std::string> body = make_answer(serving, exchange->request().body);
    exchange->respond(
        body ? http::json_response(200, *std::move(body)) : to_response(to_api_error(body.error()))
    );
  };
  const bool is_posted = serving.workers.try_post(task, exchange->request().body.size());
  if (!is_posted) exchange->respond(to_response(to_api_error(overloaded())));
}

}  // namespace

Result<void> add_text_routes(http::Router& router, ApiState& state) {
  for (const auto& [pattern, make_answer] :
       {std::pair<const char*, Answer>("/tokenize", tokenize),
        std::pair<const char*, Answer>("/detokenize", detokenize)}) {
    const auto handler = [&state, make_answer = make_answer](const ExchangePtr& exchange) {
      answer(state, exchange, make_answer);
    };
    auto added = router.add({.method = "POST", .pattern = pattern, .handler = handler});
    if (!added) return added;
  }
  return {};
}

}  // namespace millrace
