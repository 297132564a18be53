#include "remote_chat.h"

#include <fmt/format.h>

#include <utility>

#include "http/status.h"

namespace millrace {
namespace {

// The member of an object that may not be one, or null.
const json::value* member(const json::value* value, std::string_view name) {
  if (value == nullptr || !value->is_object()) return nullptr;
  return value->get_object().if_contains(name);
}

const json::value* first_element(const json::value* value) {
  if (value == nullptr || !value->is_array() || value->get_array().empty()) return nullptr;
  return &value->get_array().front();
}

std::string_view text_or_empty(const json::value* value) {
  return value != nullptr && value->is_string() ? std::string_view(value->get_string())
                                                : std::string_view();
}

std::optional<int64_t> integer_of(const json::value* value) {
  if (value == nullptr || !value->is_int64()) return std::nullopt;
  return value->get_int64();
}

// What an error object of OpenAI's shape says. Some servers give a bare string.
std::string message_of(const json::value& error) {
  const std::string_view message = text_or_empty(member(&error, "message"));
  if (!message.empty()) return std::string(message);
  const std::string_view text = text_or_empty(&error);
  return text.empty() ? "the server reports an error without a message" : std::string(text);
}

Error error_of(const http::ClientResponse& response) {
  const Result<json::value> body = parse_json(response.body);
  const json::value* error = body ? member(&*body, "error") : nullptr;
  const std::string message =
      error != nullptr ? message_of(*error) : std::string(http::reason_phrase(response.status));
  return invalid_argument(fmt::format("{} (HTTP {})", message, response.status));
}

// Takes the events of one answer.
class AnswerReader {
 public:
  explicit AnswerReader(const ChatBackend::OnText& on_text) : on_text_(on_text) {}

  // False: the stream can be left.
  bool take(const http::SseEvent& event) {
    if (event.data == "[DONE]") {
      is_done_ = true;
      return false;
    }
    const Result<json::value> chunk = parse_json(event.data);
    if (!chunk) {
      error_ = invalid_argument("the answer cannot be read: " + chunk.error().message);
      return false;
    }
    if (const json::value* error = member(&*chunk, "error"); error != nullptr) {
      error_ = invalid_argument(message_of(*error));
      return false;
    }
    return take_chunk(*chunk);
  }

  Result<ChatAnswer> finish() {
    if (error_) return *error_;
    const bool is_whole = is_done_ || !answer_.finish_reason.empty() || is_reader_gone_;
    if (!is_whole) return invalid_argument("the answer broke off");
    return std::move(answer_);
  }

  ChatAnswer take_answer() { return std::move(answer_); }

 private:
  bool take_chunk(const json::value& chunk) {
    const json::value* usage = member(&chunk, "usage");
    if (const auto count = integer_of(member(usage, "prompt_tokens"))) {
      answer_.num_prompt_tokens = count;
    }
    if (const auto count = integer_of(member(usage, "completion_tokens"))) {
      answer_.num_output_tokens = *count;
      is_counted_ = true;
    }
    const json::value* choice = first_element(member(&chunk, "choices"));
    const std::string_view reason = text_or_empty(member(choice, "finish_reason"));
    if (!reason.empty()) answer_.finish_reason = reason;
    const std::string_view text = text_or_empty(member(member(choice, "delta"), "content"));
    if (text.empty()) return true;
    if (!is_counted_) ++answer_.num_output_tokens;  // a chunk is about a token
    is_reader_gone_ = !on_text_(text);
    return !is_reader_gone_;
  }

  const ChatBackend::OnText& on_text_;
  ChatAnswer answer_;
  std::optional<Error> error_;
  bool is_counted_ = false;  // by the server
  bool is_done_ = false;
  bool is_reader_gone_ = false;
};

}  // namespace

RemoteChat::RemoteChat(http::HttpClient client, const RemoteChatOptions& options)
    : client_(std::move(client)),
      url_(options.url),
      api_key_(options.api_key),
      model_name_(options.model_name),
      fields_(options.fields) {}

Result<std::unique_ptr<RemoteChat>> RemoteChat::connect(const RemoteChatOptions& options) {
  Result<http::BaseUrl> url = http::parse_base_url(options.url);
  if (!url) {
    return invalid_argument(fmt::format("--url: {}", url.error().message), "--url");
  }
  // Both ways to write the address are in use.
  if (url->path.ends_with("/v1")) url->path.erase(url->path.size() - 3);
  Result<http::HttpClient> client =
      http::HttpClient::make(*std::move(url), {.ca_file = options.ca_file});
  if (!client) return client.error();
  std::unique_ptr<RemoteChat> chat(new RemoteChat(*std::move(client), options));
  if (chat->model_name_.empty()) {
    Result<std::string> name = chat->first_model();
    if (!name) return chat->with_url(name.error());
    chat->model_name_ = *std::move(name);
  }
  return chat;
}

http::ClientRequest RemoteChat::make_request(std::string method, std::string path) const {
  http::ClientRequest request{.method = std::move(method), .path = std::move(path)};
  if (!api_key_.empty()) request.headers.push_back({"authorization", "Bearer " + api_key_});
  return request;
}

Error RemoteChat::with_url(Error error) const {
  error.message = fmt::format("{}: {}", url_, error.message);
  return error;
}

Result<std::string> RemoteChat::first_model() {
  const Result<http::ClientResponse> response = client_.request(make_request("GET", "/v1/models"));
  if (!response) return response.error();
  if (response->status != 200) return error_of(*response);
  const Result<json::value> body = parse_json(response->body);
  const json::value* first = body ? first_element(member(&*body, "data")) : nullptr;
  const std::string_view name = text_or_empty(member(first, "id"));
  if (name.empty()) {
    return not_found("the server lists no models at /v1/models: name one with --model-name");
  }
  return std::string(name);
}

Result<ChatAnswer> RemoteChat::answer(
    const json::array& messages, const OnText& on_text, const std::stop_token& stop
) {
  json::object body = fields_;
  body["model"] = model_name_;
  body["messages"] = messages;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  http::ClientRequest request = make_request("POST", "/v1/chat/completions");
  request.body = to_json_text(body);

  AnswerReader reader(on_text);
  const auto stream = [&] {
    const std::stop_callback cancel(stop, [this] { client_.cancel(); });
    return client_.stream(request, [&](const http::SseEvent& event) { return reader.take(event); });
  };
  Result<http::ClientResponse> response = stream();
  const auto is_cancelled = [&] {
    return !response && response.error().code == ErrorCode::kCancelled;
  };
  // A cancellation that came just after the last answer ends the next request: this one.
  if (is_cancelled() && !stop.stop_requested()) response = stream();
  if (is_cancelled()) return reader.take_answer();
  if (!response) return with_url(response.error());
  if (response->status != 200) return with_url(error_of(*response));
  return reader.finish();
}

}  // namespace millrace
