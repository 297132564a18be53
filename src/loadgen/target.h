// The server that is measured and how it is spoken to. Plain values.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "http/client.h"

namespace millrace::bench {

enum class Protocol {
  kCompletions,  // POST /v1/completions
  kChat,         // POST /v1/chat/completions
  kGenerate,     // SGLang's native POST /generate
};

// Of every request; what is none is not sent.
struct SamplingFields {
  std::optional<double> temperature = 0.0;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
  bool ignores_eos = true;  // exactly the planned output: ignore_eos and min_tokens
};

struct Target {
  http::BaseUrl url;
  Protocol protocol = Protocol::kCompletions;
  std::string endpoint = "/v1/completions";  // behind the base URL
  std::string model;                         // none given: asked of /v1/models before
  std::string api_key;                       // empty: no Authorization
  std::vector<http::Header> headers;
  SamplingFields sampling;
  json::object extra_body;  // wins over what is there
  bool is_streamed = true;
  bool wants_usage = true;         // stream_options.include_usage
  bool wants_usage_deltas = true;  // stream_options.continuous_usage_stats; left out where refused
  bool wants_token_ids = false;    // return_token_ids
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds request_timeout{6 * 3600 * 1000};
  std::string ca_file;
  bool is_verified = true;  // TLS
};

}  // namespace millrace::bench
