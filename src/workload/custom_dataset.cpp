// "custom" and "openai": one request of one's own a line, in vLLM's, OpenAI's or SGLang's words.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "workload/dataset_kinds.h"
#include "workload/json_lines.h"

namespace millrace::bench {
namespace {

constexpr uint64_t kAgainSalt = 0x616761696e;

class CustomDataset : public Dataset {
 public:
  CustomDataset(const DatasetOptions& options, std::vector<PlannedRequest> requests)
      : again_key_(key_of(run_keys(options).lengths, kAgainSalt)),
        requests_(std::move(requests)),
        size_(options.num_sessions.value_or(requests_.size())) {}

  std::optional<size_t> size() const override { return size_; }

  Result<PlannedSession> session(size_t index) const override {
    CHECK(index < size_, "a session beyond the last");
    // vLLM draws among them again where more are asked for than there are.
    const size_t place =
        index < requests_.size() ? index : random_bits(again_key_, index) % requests_.size();
    return PlannedSession{{requests_[place]}};
  }

 private:
  uint64_t again_key_;
  std::vector<PlannedRequest> requests_;
  size_t size_;
};

// What would change an answer and is not sent: of a line, SGLang sends all its fields.
constexpr std::string_view kUnsentFields[] = {
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "stop",
    "stop_token_ids",
    "response_format",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "n",
    "seed",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "min_tokens",
    "ignore_eos",
    "presence_penalty",
    "frequency_penalty",
    "best_of",
    "guided_json",
    "structured_outputs",
    "repetition_penalty",
    "guided_regex",
    "reasoning_effort",
    "chat_template_kwargs",
    "suffix"};
constexpr std::string_view kUnsentMessageFields[] = {
    "tool_calls", "tool_call_id", "function_call", "name"};

Result<void> refuse_unsent(const json::object& object, std::span<const std::string_view> fields) {
  for (const std::string_view field : fields) {
    const json::value* value = object.if_contains(field);
    if (value == nullptr || value->is_null()) continue;
    return unsupported(fmt::format("'{}' is not sent: expected a line without it", field));
  }
  return {};
}

// A message's content: a string, or parts of which only text is known here.
Result<std::string> content_of(const json::value& content) {
  if (const json::string* text = content.if_string()) return std::string(*text);
  const json::array* parts = content.if_array();
  if (parts == nullptr) {
    return invalid_argument("a message's content is neither a string nor a list of parts");
  }
  std::string joined;
  for (const json::value& part : *parts) {
    const json::object* object = part.if_object();
    const json::value* text = object == nullptr ? nullptr : object->if_contains("text");
    if (text == nullptr || !text->is_string()) {
      return unsupported("a message has a part that is no text");
    }
    joined += text->get_string();
  }
  return joined;
}

Result<std::vector<PlannedMessage>> messages_of(const json::value& value) {
  const json::array* list = value.if_array();
  if (list == nullptr || list->empty()) {
    return invalid_argument("'messages' is not a list with at least one message");
  }
  std::vector<PlannedMessage> messages;
  for (const json::value& item : *list) {
    const json::object* object = item.if_object();
    const json::value* role = object == nullptr ? nullptr : object->if_contains("role");
    const json::value* content = object == nullptr ? nullptr : object->if_contains("content");
    if (role == nullptr || !role->is_string() || content == nullptr) {
      return invalid_argument("a message needs a 'role' and a 'content'");
    }
    if (auto sent = refuse_unsent(*object, kUnsentMessageFields); !sent) return sent.error();
    Result<std::string> text = content_of(*content);
    if (!text) return text.error();
    messages.push_back({std::string(role->get_string()), *std::move(text)});
  }
  return messages;
}

// The first two turns of SGLang's {"conversations": [{"content" or "value"}, ...]}.
Result<std::pair<std::string, std::string>> turns_of(const json::value& value) {
  const json::array* turns = value.if_array();
  if (turns == nullptr || turns->size() < 2) {
    return invalid_argument("'conversations' is not a list of at least two turns");
  }
  std::array<std::string, 2> texts;
  for (size_t i = 0; i < 2; ++i) {
    const json::object* turn = (*turns)[i].if_object();
    const json::value* text = turn == nullptr ? nullptr : turn->if_contains("content");
    if (text == nullptr && turn != nullptr) text = turn->if_contains("value");
    if (text == nullptr || !text->is_string()) {
      return invalid_argument("a turn needs a string 'content' or 'value'");
    }
    texts[i] = std::string(text->get_string());
  }
  return std::pair{std::move(texts[0]), std::move(texts[1])};
}

// Turns lines into requests.
class LineReader {
 public:
  LineReader(const DatasetOptions& options, const TokenCodec* codec)
      : options_(options), codec_(codec) {}

  Result<PlannedRequest> read(const json::object& line) const {
    PlannedRequest request;
    if (auto sent = refuse_unsent(line, kUnsentFields); !sent) return sent.error();
    Result<void> done = read_prompt(line, request);
    if (!done) return done.error();
    // The option wins over the line, as in vLLM.
    if (options_.output_len) request.num_output_tokens = *options_.output_len;
    if (request.num_output_tokens < 1) {
      return invalid_argument("no 'output_tokens' of 1 or more here and no --output-len");
    }
    return request;
  }

 private:
  Result<void> read_prompt(const json::object& line, PlannedRequest& request) const {
    if (Result<void> done = read_output_len(line, request); !done) return done;
    if (const json::value* messages = line.if_contains("messages")) {
      return take_messages(*messages, request);
    }
    const json::value* turns = line.if_contains("conversations");
    if (turns == nullptr) turns = line.if_contains("conversation");
    if (turns != nullptr) return take_turns(*turns, request);
    Result<std::optional<std::string>> prompt = read_text(line, "prompt");
    if (!prompt) return prompt.error();
    if (!*prompt) {
      return invalid_argument("expected a 'prompt', 'messages' or 'conversations'");
    }
    return take_text(**std::move(prompt), request);
  }

  static Result<void> read_output_len(const json::object& line, PlannedRequest& request) {
    for (const char* key : {"output_tokens", "max_completion_tokens", "max_tokens"}) {
      Result<std::optional<int64_t>> count = read_count(line, key, kPromptTokensMax);
      if (!count) return count.error();
      if (!*count) continue;
      request.num_output_tokens = **count;
      return {};
    }
    return {};
  }

  Result<void> take_messages(const json::value& value, PlannedRequest& request) const {
    if (options_.sends_token_ids) {
      return unsupported("--tokenize-prompt cannot send 'messages', which the server templates");
    }
    Result<std::vector<PlannedMessage>> messages = messages_of(value);
    if (!messages) return messages.error();
    for (const PlannedMessage& message : *messages) {
      Result<int64_t> count = count_of(message.content);
      if (!count) return count.error();
      request.num_prompt_tokens += *count;
    }
    request.prompt = *std::move(messages);
    return {};
  }

  Result<void> take_turns(const json::value& value, PlannedRequest& request) const {
    Result<std::pair<std::string, std::string>> turns = turns_of(value);
    if (!turns) return turns.error();
    if (request.num_output_tokens == 0) {
      Result<int64_t> count = count_of(turns->second);
      if (!count) return count.error();
      request.num_output_tokens = *count;
    }
    return take_text(std::move(turns->first), request);
  }

  Result<void> take_text(std::string text, PlannedRequest& request) const {
    if (codec_ == nullptr) {
      request.prompt = std::move(text);
      return {};
    }
    Result<std::vector<TokenId>> ids = codec_->encode(text);
    if (!ids) return ids.error();
    request.num_prompt_tokens = static_cast<int64_t>(ids->size());
    if (options_.sends_token_ids) {
      request.prompt = *std::move(ids);
      return {};
    }
    request.num_prompt_tokens += static_cast<int64_t>(codec_->num_added_tokens());
    request.prompt = std::move(text);
    return {};
  }

  Result<int64_t> count_of(const std::string& text) const {
    if (codec_ == nullptr) return int64_t{0};
    Result<std::vector<TokenId>> ids = codec_->encode(text);
    if (!ids) return ids.error();
    return static_cast<int64_t>(ids->size());
  }

  const DatasetOptions& options_;
  const TokenCodec* codec_;
};

}  // namespace

DatasetResult make_custom_dataset(const DatasetOptions& options, CodecPtr codec) {
  if (options.sends_token_ids && codec == nullptr) {
    return invalid_argument("--tokenize-prompt needs a tokenizer: --tokenizer", "--tokenizer");
  }
  if (options.output_len && (*options.output_len < 1 || *options.output_len > kPromptTokensMax)) {
    return invalid_argument(
        fmt::format(
            "--output-len is {}, expected from 1 to {}", *options.output_len, kPromptTokensMax
        ),
        "--output-len"
    );
  }
  const LineReader reader(options, codec.get());
  std::vector<PlannedRequest> requests;
  const auto take = [&](const json::object& line, size_t) -> Result<void> {
    // No more lines than are sent: a server is asked about each.
    if (options.num_sessions && requests.size() >= *options.num_sessions) return {};
    Result<PlannedRequest> request = reader.read(line);
    if (!request) return request.error();
    requests.push_back(*std::move(request));
    return {};
  };
  if (Result<void> read = for_each_json_line(options.path, take); !read) return read.error();
  if (requests.empty() && options.num_sessions != std::size_t{0}) {
    return invalid_argument(options.path + " has no requests", options.path);
  }
  return std::unique_ptr<Dataset>(std::make_unique<CustomDataset>(options, std::move(requests)));
}

}  // namespace millrace::bench
