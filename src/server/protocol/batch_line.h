// The lines of OpenAI's batch files: requests in, answers out. Pure functions; any thread.
// https://platform.openai.com/docs/api-reference/batch/request-input
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/protocol/generation_request.h"

namespace millrace {

// What one line of a request file asks for.
struct BatchRequestLine {
  std::optional<std::string> custom_id;  // none: the line has none that an answer could name
  Api api = Api::kCompletions;
  std::string body;            // JSON, as it would be posted
  std::optional<Error> error;  // why the line is no request; its `reason` is the code
};

constexpr size_t kCustomIdBytesMax = 512;

BatchRequestLine read_batch_request(std::string_view line);

// What an answer's line begins with, whatever comes behind.
inline constexpr std::string_view kBatchAnswerHead = "{\"id\":\"batch_req_";

// Which request a line answers. Its number, from 1 on, is a part of the answer's id: so that the
// answers to lines without a custom_id can be told apart.
struct BatchAnswerName {
  uint64_t line_number = 0;
  std::optional<std::string> custom_id;

  friend bool operator==(const BatchAnswerName&, const BatchAnswerName&) = default;
};

// The answer of a server: its status, the id of the request, and a body of JSON in one line.
std::string batch_answer_line(
    const BatchAnswerName& name, int status, std::string_view request_id, std::string_view body
);

// The answer to a line that never became a request.
std::string batch_error_line(const BatchAnswerName& name, const Error& error);

struct BatchAnswerLine {
  BatchAnswerName name;
  bool is_failed = false;  // an error, or another status than 200
};

// Reads what the two functions above write. The error says how the line differs.
Result<BatchAnswerLine> read_batch_answer(std::string_view line);

}  // namespace millrace
