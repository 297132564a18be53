#include "generate_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <utility>

#include "base/file.h"
#include "sampling_flags.h"
#include "server/generation_fields.h"
#include "server/prompt.h"

namespace millrace {
namespace {

constexpr int32_t kMaxTokensDefault = 256;

// Keys of a line besides the generation fields.
constexpr std::array<std::string_view, 6> kPromptKeys = {
    "prompt",
    "prompt_token_ids",
    "messages",
    "tools",
    "add_generation_prompt",
    "chat_template_kwargs",
};

Result<void> check_keys(const json::object& object) {
  for (const json::key_value_pair& entry : object) {
    const std::string key = entry.key();
    if (is_generation_field(key) || std::ranges::find(kPromptKeys, key) != kPromptKeys.end()) {
      continue;
    }
    return invalid_argument(fmt::format("there is no field '{}'", key.substr(0, 100)), key);
  }
  return {};
}

// The one of prompt, prompt_token_ids and messages that the line has.
Result<std::string_view> prompt_key(const json::object& object) {
  std::optional<std::string_view> found;
  for (const std::string_view key : {"prompt", "prompt_token_ids", "messages"}) {
    if (!object.contains(key)) continue;
    if (found) {
      return invalid_argument(
          fmt::format("{} and {} exclude each other", *found, key), std::string(key)
      );
    }
    found = key;
  }
  if (found) return *found;
  return invalid_argument("expected one of prompt, prompt_token_ids and messages", "prompt");
}

Result<std::vector<TokenId>> tokenize(
    const json::object& object, const LocalModel& model, std::chrono::local_seconds now
) {
  const Result<std::string_view> key = prompt_key(object);
  if (!key) return key.error();
  for (const std::string_view chat_only :
       {"tools", "add_generation_prompt", "chat_template_kwargs"}) {
    if (*key == "messages" || !object.contains(chat_only)) continue;
    return invalid_argument(
        fmt::format("{} goes with messages only", chat_only), std::string(chat_only)
    );
  }
  const json::value& value = object.at(*key);
  if (*key == "prompt_token_ids") return read_token_ids(*key, value);
  if (*key == "messages") {
    const Result<ChatInput> chat = read_chat(object, now, true);
    if (!chat) return chat.error();
    const Result<RenderedChat> rendered = render_chat(model.text, *chat);
    if (!rendered) return rendered.error();
    return tokenize_chat(model.text, *rendered);
  }
  if (!value.is_string()) return invalid_argument("prompt must be a string", "prompt");
  return tokenize_text(model.text, value.get_string());
}

Result<std::string> read_lines(const std::string& input) {
  const auto read_all = [](std::istream& stream) {
    return std::string(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  };
  if (input == "-") return read_all(std::cin);
  std::error_code ignored;
  if (!std::filesystem::exists(input, ignored) ||
      std::filesystem::is_regular_file(input, ignored)) {
    return read_file(input);
  }
  std::ifstream stream(input);  // a pipe or a device
  if (!stream) return invalid_argument(fmt::format("cannot open '{}'", input), "--input");
  return read_all(stream);
}

InputLine parse_line(std::string_view text, size_t number) {
  const Result<json::value> value = parse_json(text);
  if (!value) {
    return {.error = invalid_argument(fmt::format("line {}: {}", number, value.error().message))};
  }
  if (!value->is_object()) {
    return {.error = invalid_argument(fmt::format("line {} must be a JSON object", number))};
  }
  return {.object = value->get_object()};
}

}  // namespace

void add_input_flags(CommandLine& line, InputFlags& flags) {
  const auto take_prompt = [&flags](const std::string& text) -> Result<void> {
    flags.prompts.push_back(text);
    return {};
  };
  line.add_callback(
      "--prompt,-p", take_prompt, "a prompt: a chat turn, or plain text for a plain model"
  );
  line.add("--input,-i", flags.input, "a JSONL file of prompts; - is stdin");
  line.add_flag("--raw", flags.raw, "--prompt is plain text, without the chat template");
  add_sampling_flags(line, flags.fields);
}

Result<std::vector<InputLine>> read_input(const InputFlags& flags) {
  if (flags.prompts.empty() == flags.input.empty()) {
    return invalid_argument("give either --prompt TEXT or --input FILE.jsonl", "--prompt");
  }
  std::vector<InputLine> lines;
  for (const std::string& prompt : flags.prompts) {
    lines.push_back({.object = {{"prompt", prompt}}, .is_chat_turn = !flags.raw});
  }
  if (!flags.prompts.empty()) return lines;

  const Result<std::string> content = read_lines(flags.input);
  if (!content) return content.error();
  std::string_view rest = *content;
  for (size_t number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view text = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    lines.push_back(parse_line(text, number));
  }
  if (lines.empty()) return invalid_argument("there is no prompt in " + flags.input, "--input");
  return lines;
}

BatchItem prepare(
    const InputLine& line,
    const LocalModel& model,
    const InputFlags& flags,
    std::chrono::local_seconds now
) {
  BatchItem item;
  const auto fail = [&item](const Error& error) {
    item.error = error;
    return item;
  };
  if (line.error) return fail(*line.error);
  json::object object = line.object;
  if (line.is_chat_turn && model.text.chat_template) {
    object = {{"messages", {{{"role", "user"}, {"content", object.at("prompt")}}}}};
  }
  const Result<void> known = check_keys(object);
  if (!known) return fail(known.error());
  item.fields.sampling.temperature = 0.0F;
  item.fields.sampling.max_tokens = model.defaults.max_new_tokens.value_or(kMaxTokensDefault);
  apply_defaults(model.defaults, item.fields.sampling);
  for (const json::object* fields : {&flags.fields, &std::as_const(object)}) {
    const Result<void> read = read_generation_fields(*fields, model.text.tokenizer, item.fields);
    if (!read) return fail(read.error());
  }
  if (item.fields.priority != 0 && model.engine->limits().policy != SchedulingPolicy::kPriority) {
    return fail(invalid_argument("priority needs --scheduling-policy priority", "priority"));
  }
  item.fields.continues_prompt = !object.contains("messages");
  Result<std::vector<TokenId>> prompt = tokenize(object, model, now);
  if (!prompt) return fail(prompt.error());
  item.prompt = *std::move(prompt);
  return item;
}

}  // namespace millrace
