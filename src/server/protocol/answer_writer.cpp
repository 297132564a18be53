#include "server/protocol/answer_writer.h"

#include <chrono>

#include "server/protocol/answer_parts.h"
#include "server/protocol/chat_writer.h"
#include "server/protocol/completion_writer.h"
#include "server/protocol/native_writer.h"

namespace millrace {

AnswerIdentity make_identity(Api api, const std::string& request_id) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {
      .id = api == Api::kChat          ? "chatcmpl-" + request_id
            : api == Api::kCompletions ? "cmpl-" + request_id
                                       : request_id,
      .created_s = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
  };
}

std::unique_ptr<AnswerWriter> make_answer_writer(
    const GenerationRequest& request, const Tokenizer& tokenizer, AnswerIdentity identity
) {
  switch (request.api) {
    case Api::kCompletions:
      return std::make_unique<CompletionWriter>(request, tokenizer, std::move(identity));
    case Api::kChat:
      return std::make_unique<ChatWriter>(request, tokenizer, std::move(identity));
    case Api::kNative:
      break;
  }
  return std::make_unique<NativeWriter>(request, tokenizer, std::move(identity));
}

void append_failure(std::string_view error_body, std::string& out) {
  out += "data: ";
  // A line break would end the event; between JSON's tokens it means no more than a space.
  for (const char character : error_body) {
    out += character == '\n' || character == '\r' ? ' ' : character;
  }
  out += "\n\n";
  out += kStreamEnd;
}

}  // namespace millrace
