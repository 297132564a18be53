// From the messages of a chat to the text that its model was trained on.
//
// The template is the model's own (Jinja, sandboxed: text/jinja/template.h). The result says which
// of its bytes come from the request, so that the tokenizer recognises special tokens only in what
// the template itself wrote.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/byte_range.h"
#include "text/jinja/limits.h"
#include "text/jinja/template.h"
#include "text/special_tokens.h"

namespace millrace {

struct ChatInput {
  json::array messages;              // objects, each with a string "role"; at least one
  std::optional<json::array> tools;  // as OpenAI's; none: the template sees none
  std::optional<json::array> documents;
  bool add_generation_prompt = true;  // ends with the start of the assistant's turn
  // The text ends within the last message, for the model to go on with it. REQUIRES: not
  // add_generation_prompt.
  bool continue_final_message = false;
  json::object chat_template_kwargs;  // more variables, such as enable_thinking
  // OpenAI's, for the template to act on: it sees `reasoning_effort`, and `enable_thinking` (false
  // for "none") unless chat_template_kwargs sets that itself, as vLLM does.
  std::optional<std::string> reasoning_effort;
  std::chrono::local_seconds now;  // what the template's strftime_now() shows
};

struct RenderedChat {
  std::string text;
  // What came from the messages, tools, documents and kwargs, but for a message's role that is one
  // of OpenAI's: sorted, not touching one another.
  std::vector<ByteRange> input_ranges;
};

// Refuses names that a request must not set: what the server itself gives to templates, and options
// of Hugging Face's apply_chat_template. The error's `where` is "chat_template_kwargs.NAME".
Result<void> check_chat_template_kwargs(const json::object& kwargs);

// Immutable after parsing; any number of threads may render with one.
class ChatTemplate {
 public:
  // Errors name the template's line in `where`.
  static Result<ChatTemplate> parse(
      std::string source, SpecialTokens tokens, const jinja::Limits& limits = {}
  );
  // Several templates of one model by name: "tool_use" serves requests with tools, if there is one;
  // "default" all others.
  static Result<ChatTemplate> parse_named(
      const std::map<std::string, std::string>& sources,
      SpecialTokens tokens,
      const jinja::Limits& limits = {}
  );

  // As Hugging Face's apply_chat_template, version 5: the nulls of a message are dropped, and
  // reasoning_content, thinking and reasoning stand in for each other.
  //
  // kInvalidArgument: a malformed input, with its JSON path in `where`; or the template refused the
  // chat, with exactly its message. kUnsupported and kResourceExhausted: see jinja::Template.
  Result<RenderedChat> render(const ChatInput& input) const;

  // The JSON path of what `input` states and the template that serves it never looks at: "tools",
  // "documents", "reasoning_effort", "chat_template_kwargs.NAME" or "messages[N].tool_calls". none:
  // it looks at all of them. A template that names no member of a message prints it whole.
  std::optional<std::string> unread(const ChatInput& input) const;

 private:
  ChatTemplate(std::map<std::string, jinja::Template> templates, SpecialTokens tokens)
      : templates_(std::move(templates)), tokens_(std::move(tokens)) {}
  const jinja::Template* choose(bool has_tools) const;

  std::map<std::string, jinja::Template> templates_;
  SpecialTokens tokens_;
};

// The chat template of a model's folder, as Hugging Face's tokenizers find it: chat_template.jinja
// and additional_chat_templates/NAME.jinja; without these, "chat_template" of tokenizer_config.json
// (a string, or a list of {name, template}); then chat_template.json. With `name`, only the
// template of that name. Without any template: none. `tokens`: those that it can name
// (load_folder_tokens).
//
// kNotFound: there are templates, and none of that name.
Result<std::optional<ChatTemplate>> load_chat_template(
    const std::string& model_dir,
    SpecialTokens tokens,
    const std::optional<std::string>& name = std::nullopt,
    const jinja::Limits& limits = {}
);

}  // namespace millrace
