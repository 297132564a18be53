// How a planned request is worded for an endpoint: the whole HTTP request as bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/id.h"
#include "base/result.h"
#include "loadgen/target.h"
#include "workload/planned_request.h"

namespace millrace::bench {

// What stands for a prompt in a body, as JSON text, and how it grows over the turns of a session: a
// chat gets messages one after the other, the other endpoints one text.
class Conversation {
 public:
  explicit Conversation(Protocol protocol) : protocol_(protocol) {}

  // kUnsupported: token ids where the endpoint takes none, or behind other turns.
  Result<void> add_prompt(const PlannedPrompt& prompt);
  void add_answer(std::string_view text);

  // "prompt", "messages", "text" or "input_ids".
  std::string_view field() const;
  // The field's value.
  std::string json() const;

 private:
  void add_message(std::string_view role, std::string_view content);
  void add_text(std::string_view text);
  void add_ids(const std::vector<TokenId>& ids);

  Protocol protocol_;
  bool is_ids_ = false;
  std::string inside_;  // of the JSON value, without its quotes or brackets
};

// Immutable, so any thread may use it.
class RequestWriter {
 public:
  // `sends_usage_deltas`: of what the target wants, whether the server takes it. The error names
  // the header or the field that cannot be sent.
  static Result<RequestWriter> make(const Target& target, bool sends_usage_deltas);

  // Fields of the target's `extra_body` win over all others; `sampling_params` and
  // `stream_options` are merged.
  std::string body(const Conversation& conversation, int64_t num_output_tokens) const;

  // Head and body.
  std::string write(const Conversation& conversation, int64_t num_output_tokens) const;

 private:
  RequestWriter() = default;

  std::string head_;  // up to the length's value
  json::object fields_;
  json::object extra_;
  Protocol protocol_ = Protocol::kCompletions;
  bool ignores_eos_ = false;
};

}  // namespace millrace::bench
