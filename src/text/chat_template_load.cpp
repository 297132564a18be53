// Finds the chat templates of a model's folder.
#include <fmt/format.h>

#include <filesystem>

#include "base/file.h"
#include "text/chat_template.h"

namespace millrace {
namespace {

using Sources = std::map<std::string, std::string>;

constexpr size_t kNumTemplatesMax = 64;

bool exists(const std::string& path) {
  std::error_code ec;
  return std::filesystem::is_regular_file(path, ec);
}

Result<Sources> read_jinja_files(const std::string& model_dir, const jinja::Limits& limits) {
  Sources sources;
  const std::string main_file = model_dir + "/chat_template.jinja";
  if (exists(main_file)) {
    Result<std::string> text = read_file(main_file, limits.template_bytes_max);
    if (!text) return text.error();
    sources["default"] = std::move(*text);
  }
  std::error_code ec;
  std::filesystem::directory_iterator file(model_dir + "/additional_chat_templates", ec);
  for (; !ec && file != std::filesystem::directory_iterator(); file.increment(ec)) {
    const std::filesystem::path path = file->path();
    if (path.extension() != ".jinja" || sources.size() > kNumTemplatesMax) continue;
    Result<std::string> text = read_file(path.string(), limits.template_bytes_max);
    if (!text) return text.error();
    sources[path.stem().string()] = std::move(*text);
  }
  return sources;
}

// "chat_template" of a config: a string, or a list of objects with a name and a template.
Result<Sources> templates_of(const json::object& config, const std::string& path) {
  Sources sources;
  const json::value* value = config.if_contains("chat_template");
  if (value == nullptr || value->is_null()) return sources;
  if (value->is_string()) {
    sources["default"] = std::string(value->get_string());
    return sources;
  }
  const Error malformed = invalid_argument(
      path + ": expected chat_template to be a string or a list of {name, template}", path
  );
  if (!value->is_array()) return malformed;
  for (const json::value& item : value->get_array()) {
    const json::object* fields = item.if_object();
    const json::value* name = fields == nullptr ? nullptr : fields->if_contains("name");
    const json::value* source = fields == nullptr ? nullptr : fields->if_contains("template");
    const bool is_pair =
        name != nullptr && source != nullptr && name->is_string() && source->is_string();
    if (!is_pair || sources.size() >= kNumTemplatesMax) return malformed;
    sources[std::string(name->get_string())] = std::string(source->get_string());
  }
  return sources;
}

}  // namespace

Result<std::optional<ChatTemplate>> load_chat_template(
    const std::string& model_dir,
    SpecialTokens tokens,
    const std::optional<std::string>& name,
    const jinja::Limits& limits
) {
  Result<Sources> sources = read_jinja_files(model_dir, limits);
  for (const char* const file : {"/tokenizer_config.json", "/chat_template.json"}) {
    if (!sources || !sources->empty()) break;
    const std::string path = model_dir + file;
    const Result<json::object> config = read_folder_object(path);
    if (!config) return config.error();
    sources = templates_of(*config, path);
  }
  if (!sources) return sources.error();
  if (sources->empty()) return std::optional<ChatTemplate>();
  if (name) {
    const auto found = sources->find(*name);
    if (found == sources->end()) {
      return not_found(
          fmt::format("{} has no chat template named \"{}\"", model_dir, *name), model_dir
      );
    }
    sources = Sources{{*found}};
  }
  Result<ChatTemplate> parsed = ChatTemplate::parse_named(*sources, std::move(tokens), limits);
  if (!parsed) return parsed.error();
  return std::optional(std::move(*parsed));
}

}  // namespace millrace
