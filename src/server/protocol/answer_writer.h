// How one API words its answers: as one JSON object, or as a stream of server-sent events. One
// object for each call; used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "server/protocol/generation_request.h"
#include "server/protocol/generation_result.h"
#include "text/tokenizer.h"

namespace millrace {

// What stands in every answer of a call.
struct AnswerIdentity {
  std::string id;         // "cmpl-..." or "chatcmpl-...", after the HTTP request's id
  int64_t created_s = 0;  // Unix time
  // Changes when the same request might be answered with other tokens: another version, say.
  std::string system_fingerprint = "fp_millrace";
};

// For a request that came by HTTP or otherwise under `request_id`, now.
AnswerIdentity make_identity(Api api, const std::string& request_id);

// A stream is begin(), for each choice its deltas in any interleaving, then end() or fail(). Each
// appends whole events ("data: {...}\n\n") to `out`, or nothing.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  // What comes before the first token of any choice. `prompts`: without choices yet; with the
  // prompt's logprobs if they belong into the stream (echo).
  virtual void begin(std::span<const PromptResult> prompts, std::string& out) = 0;

  // `usage` is so far. A delta without text, logprobs to tell or an ending may append nothing.
  virtual void delta(const ChoiceDelta& delta, const Usage& usage, std::string& out) = 0;

  // Asks memory for what delta() will copy.
  virtual void prefetch() const {}

  // The usage chunk, if it was asked for, and the end of the stream.
  virtual void end(const Usage& usage, std::string& out) = 0;

  // The answer as one JSON object.
  virtual std::string whole(const GenerationResult& result) = 0;
};

// For `request.api`. `request` and `tokenizer` are borrowed for the writer's life.
std::unique_ptr<AnswerWriter> make_answer_writer(
    const GenerationRequest& request, const Tokenizer& tokenizer, AnswerIdentity identity
);

// An event that carries an error in the middle of a stream, and the end of the stream:
// `data: {"error":{...}}`, then `data: [DONE]`.
void append_failure(std::string_view error_body, std::string& out);

}  // namespace millrace
