// `millrace template`: conversations through the model's chat template.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "command_line.h"
#include "commands.h"
#include "failure.h"
#include "json_lines.h"
#include "local_time.h"
#include "model_flags.h"
#include "server/model_text.h"
#include "server/prompt.h"

namespace millrace {
namespace {

constexpr std::array<std::string_view, 4> kKeys = {
    "messages", "tools", "add_generation_prompt", "chat_template_kwargs"};

struct TemplateFlags {
  ModelFlags model;
  bool jsonl = false;
};

// {"text": ...} or {"error": ...}: what a template refuses is a result like any other.
Result<json::value> render(const ModelText& model, const json::value& line) {
  const auto failed = [](const Error& error) {
    return json::value(json::object{{"error", error.message}});
  };
  if (!line.is_object()) return invalid_argument("expected an object with messages");
  for (const json::key_value_pair& entry : line.get_object()) {
    if (std::ranges::find(kKeys, std::string_view(entry.key())) == kKeys.end()) {
      return failed(invalid_argument(fmt::format("there is no field '{}'", entry.key())));
    }
  }
  const Result<ChatInput> chat = read_raw_chat(line.get_object(), local_now(), false);
  if (!chat) return failed(chat.error());
  const Result<RenderedChat> rendered = render_raw_chat(model, *chat);
  if (!rendered) return failed(rendered.error());
  return json::value(json::object{{"text", rendered->text}});
}

Result<void> render_lines(const TemplateFlags& flags) {
  if (!flags.jsonl) return invalid_argument("give --jsonl: a conversation a line on stdin");
  const Result<ModelTextOptions> options = text_options_of(flags.model);
  if (!options) return options.error();
  const Result<ModelText> model = load_model_text(*options);
  if (!model) return model.error();
  return for_each_json_line([&](const json::value& line) { return render(*model, line); });
}

}  // namespace

int run_template(std::vector<std::string> arguments) {
  TemplateFlags flags;
  CommandLine line("template", "Conversations through the model's chat template.");
  add_text_flags(line, flags.model);
  line.add_flag(
      "--jsonl", flags.jsonl, "a conversation a line on stdin, {\"text\"} or {\"error\"} out"
  );
  line.set_footer(
      "A line is {\"messages\", \"tools\", \"add_generation_prompt\", \"chat_template_kwargs\"}; "
      "all but\n"
      "the messages may be left out (as in Hugging Face's apply_chat_template, no generation "
      "prompt then).\n"
      "\n"
      "Example:\n"
      "  echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}' | millrace template "
      "--jsonl"
  );
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  return report("template", render_lines(flags));
}

}  // namespace millrace
