// Who answers a terminal chat: the seam between the conversation and a model in this process or a
// server somewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace millrace {

struct ChatAnswer {
  std::string finish_reason;  // "stop", "length", ...; empty where it was stopped from outside
  std::optional<int64_t> num_prompt_tokens;  // none: the backend does not say
  int64_t num_output_tokens = 0;
};

// Called by one thread.
class ChatBackend {
 public:
  virtual ~ChatBackend() = default;

  // Gets a piece of the answer: valid UTF-8, not empty. False: nobody reads any more, stop.
  using OnText = std::function<bool(std::string_view)>;

  // Answers the conversation ("messages" as OpenAI's) and returns once that is over. `stop` ends it
  // early: no error, but what was said until then. After an error the text may be incomplete.
  virtual Result<ChatAnswer> answer(
      const json::array& messages, const OnText& on_text, const std::stop_token& stop
  ) = 0;

  virtual const std::string& model_name() const = 0;
};

}  // namespace millrace
