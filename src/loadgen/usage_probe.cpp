#include "loadgen/usage_probe.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "http/characters.h"
#include "loadgen/request_body.h"

namespace millrace::bench {
namespace {

constexpr std::chrono::seconds kPatience{60};

bool is_clients_own(const http::Header& header) {
  constexpr std::array<std::string_view, 3> kOwn = {"host", "content-type", "content-length"};
  return std::ranges::any_of(kOwn, [&](std::string_view name) {
    return http::equals_ignoring_case(header.name, name);
  });
}

// The status, if there was one.
std::optional<int> ask(http::HttpClient& client, const Target& target, bool sends_usage_deltas) {
  const Result<RequestWriter> writer = RequestWriter::make(target, sends_usage_deltas);
  Conversation conversation(target.protocol);
  if (!writer || !conversation.add_prompt(PlannedPrompt("hi"))) return std::nullopt;
  http::ClientRequest request{
      .path = target.endpoint,
      .headers = target.headers,
      .body = writer->body(conversation, 1),
  };
  std::erase_if(request.headers, is_clients_own);
  if (!target.api_key.empty()) {
    request.headers.push_back({"authorization", "Bearer " + target.api_key});
  }
  const Result<http::ClientResponse> response = client.request(request);
  if (!response) return std::nullopt;
  return response->status;
}

}  // namespace

bool takes_usage_deltas(const Target& target, const std::stop_token& stop) {
  const bool is_wanted = target.wants_usage && target.wants_usage_deltas && target.is_streamed &&
                         target.protocol != Protocol::kGenerate;
  if (!is_wanted) return false;
  Result<http::HttpClient> client = http::HttpClient::make(
      target.url,
      {.connect_timeout = target.connect_timeout,
       .idle_timeout = std::min<std::chrono::milliseconds>(target.request_timeout, kPatience),
       .ca_file = target.ca_file,
       .is_verified = target.is_verified}
  );
  if (!client) return true;
  const std::stop_callback cancel(stop, [&] { client->cancel(); });
  const auto is_refusal = [](std::optional<int> status) { return status == 400 || status == 422; };
  if (!is_refusal(ask(*client, target, true))) return true;
  const std::optional<int> without = ask(*client, target, false);
  return !without || is_refusal(without);
}

}  // namespace millrace::bench
