// A chat with a server that speaks OpenAI's API.
// https://platform.openai.com/docs/api-reference/chat/streaming
#pragma once

#include <memory>
#include <string>

#include "chat_backend.h"
#include "http/client.h"

namespace millrace {

struct RemoteChatOptions {
  std::string url;         // "http://host:8000", with or without /v1; "https://..."; "unix:PATH"
  std::string api_key;     // empty: none is sent
  std::string model_name;  // empty: the first that the server lists
  std::string ca_file;     // PEM; empty: the system's authorities
  json::object fields;     // what each request states besides its messages
};

class RemoteChat final : public ChatBackend {
 public:
  // Asks the server for its models if none is named. Errors name the URL.
  static Result<std::unique_ptr<RemoteChat>> connect(const RemoteChatOptions& options);

  Result<ChatAnswer> answer(
      const json::array& messages, const OnText& on_text, const std::stop_token& stop
  ) override;
  const std::string& model_name() const override { return model_name_; }

 private:
  RemoteChat(http::HttpClient client, const RemoteChatOptions& options);
  http::ClientRequest make_request(std::string method, std::string path) const;
  Result<std::string> first_model();
  Error with_url(Error error) const;

  http::HttpClient client_;
  std::string url_;
  std::string api_key_;
  std::string model_name_;
  json::object fields_;
};

}  // namespace millrace
