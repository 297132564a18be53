#include "bench/request_bytes.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/json.h"
#include "bench/load_client.h"

namespace millrace::bench {
namespace {

// 32 words that are one token each in the vocabularies of GPT-2, Llama 3, Qwen and SmolLM2.
constexpr std::string_view kPrompt =
    "The people of the small town near the river said that they had never seen so much water in "
    "the old stone house by the green hill and the long road home";

std::string post(std::string_view path, std::string_view body) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n"
      "User-Agent: frontend_load\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
      path,
      body.size(),
      body
  );
}

std::string generation_body(std::string_view model, const GenerationShape& shape) {
  json::object body;
  body["model"] = model;
  if (shape.is_chat) {
    body["messages"] = json::array{json::object{{"role", "user"}, {"content", kPrompt}}};
  } else {
    body["prompt"] = kPrompt;
  }
  body["max_tokens"] = shape.num_output_tokens;
  body["ignore_eos"] = true;
  body["temperature"] = 0.0;
  if (shape.is_stream) {
    body["stream"] = true;
    body["stream_options"] = json::object{{"include_usage", true}};
  }
  return json::serialize(body);
}

class OneAnswer : public ResponseHandler {
 public:
  Result<void> on_response(size_t, const ResponseReader& response, TimePoint) override {
    status = response.status();
    body = response.body();
    is_here = true;
    return {};
  }

  bool is_here = false;
  int status = 0;
  std::string body;
};

}  // namespace

std::string generation_request(std::string_view model, const GenerationShape& shape) {
  return post(
      shape.is_chat ? "/v1/chat/completions" : "/v1/completions", generation_body(model, shape)
  );
}

std::string broken_request(std::string_view model) {
  std::string body = generation_body(model, {.num_output_tokens = 16});
  body.pop_back();
  return post("/v1/completions", body);
}

std::string get_request(std::string_view path) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path);
}

Result<std::string> fetch(
    const http::Address& address, std::string_view request, int expected_status
) {
  Result<LoadClient> client = LoadClient::connect(address, 1);
  if (!client) return client.error();
  client->keep_body(0);
  if (Result<void> sent = client->send(0, request); !sent) return sent.error();
  OneAnswer answer;
  const TimePoint deadline = Clock::now() + std::chrono::seconds(60);
  while (!answer.is_here) {
    if (Clock::now() > deadline) return Error{ErrorCode::kDeadlineExceeded, "no answer in 60 s"};
    Result<void> polled = client->poll(answer, std::chrono::milliseconds(100));
    if (!polled) return polled.error();
  }
  if (answer.status != expected_status) {
    return invalid_argument(
        fmt::format("status {}, not {}: {}", answer.status, expected_status, answer.body)
    );
  }
  return std::move(answer.body);
}

}  // namespace millrace::bench
